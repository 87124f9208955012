// fetch(): downloads the published files of a data set from its mirrors, from another mirror, or
// copies them from a folder.
//
// No file is used before its SHA-256 is verified. An interrupted download is resumed, after growing
// waits, as long as it makes progress; then the next mirror is tried. Only the files of the data
// set are unpacked from an archive, to fixed names that do not come from the archive; nothing is
// written outside the target folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/models/data/sets/published.h"

namespace tessera {

// "mnist, fashion_mnist, ..."
std::string known_set_names();

// Returns an entry of published_sets(); '-' in the name is read as '_'. Throws ConfigError, with
// the list of sets.
PublishedSet known_set(const std::string& name);

// Reads lines "SHA256 BYTES NAME" for files that replace the published ones. Throws ConfigError.
std::vector<PublishedFile> read_manifest(const std::string& path);

// Fetches the set into the folder `root`, and prints each step; on a terminal also the progress of
// a download. `from` is the URL of a folder, a local folder, or "" for the set's mirrors. Throws
// DataError if no source has the right bytes.
void fetch(const PublishedSet& set, const std::string& root, const std::string& from);

// Throws DataError unless the file has the expected bytes.
void verify_file(const std::string& path, const PublishedFile& expected);

struct Download {
  std::string why;        // empty if complete, else the reason
  bool may_pass = false;  // another request to the same server may succeed
};

// Continues `path`, which may have the first bytes already, up to `most` bytes, in one request.
// Only appends, but removes the file if the server sends more than `most`. Writes nothing if the
// headers of the answer describe another file. Leaves no empty file.
Download download(const std::string& url, const std::string& path, int64_t most,
                  const std::function<void(int64_t)>& progress = {});

// Writes the given members of a .tar.gz into the folder. Throws DataError if the archive is
// damaged, has more or larger entries than any data set, or lacks a member.
void unpack(const std::string& archive, const std::vector<std::string>& members,
            const std::string& folder);

}  // namespace tessera
