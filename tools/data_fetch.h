// Gets the published files of a data set: from its mirrors, a mirror of one's own, or a folder.
//
// Nothing is believed before its SHA-256 is right. A download that breaks off is gone on with,
// after a wait that grows, as long as bytes come; then the next mirror is tried. Of an archive only
// the files that the data set consists of are unpacked, to names that do not come from the archive;
// nothing is written outside the target folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/models/data/sets/published.h"

namespace tessera {

// "mnist, fashion_mnist, ..."
std::string known_set_names();

// Of published_sets(), '-' in the name read as '_'; throws ConfigError naming them.
PublishedSet known_set(const std::string& name);

// Lines "SHA256 BYTES NAME" for files other than the published ones. Throws ConfigError.
std::vector<PublishedFile> read_manifest(const std::string& path);

using FetchProgress = std::function<void(const PublishedFile&, int64_t)>;

// Into the folder `root`. from: a URL of a folder, a folder on this machine, or "" for the set's
// mirrors. say gets a line now and then; progress is called often while a file is downloaded, with
// the bytes of it that are there. Throws DataError when no source has the right bytes.
void fetch(const PublishedSet& set, const std::string& root, const std::string& from,
           const std::function<void(const std::string&)>& say, const FetchProgress& progress = {});

// Throws DataError unless the file has these bytes.
void verify_file(const std::string& path, const PublishedFile& expected);

struct Download {
  std::string why;        // "" when all bytes are there, otherwise what went wrong
  bool may_pass = false;  // asking the same server once more may help
};

// Goes on with `path`, which may have the first bytes already, until `most` bytes are there. One
// request. What is there is only added to, or removed when the server sends more than `most`; an
// answer that by its headers is another file is not written. Leaves no empty file.
Download download(const std::string& url, const std::string& path, int64_t most,
                  const std::function<void(int64_t)>& progress = {});

// Writes the members of a .tar.gz into the folder, with the names given. Throws DataError when it
// is damaged, has more or larger entries than a data set can have, or one is missing.
void unpack(const std::string& archive, const std::vector<std::string>& members,
            const std::string& folder);

}  // namespace tessera
