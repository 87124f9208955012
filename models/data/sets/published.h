// The table of published data sets, which opening, memory needs, configurations and `trainer data
// fetch` use. Another data set in one of the formats is one more entry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

enum class PublishedFormat {
  kIdx,    // published_files.h; a split is its images file and its labels file, plain or ".gz"
  kCifar,  // published_files.h; a split is any number of files of equal length
};

// One of the label sets of a data set.
struct PublishedLabels {
  int classes = 0;
  std::vector<std::string> names;  // empty, or one per class
  std::string names_file;          // next to the images, one line per class; "": none
};

struct PublishedFile {
  std::string name, sha256;
  int64_t bytes = 0;
};

struct PublishedSet {
  std::string name;  // "cifar10"
  PublishedFormat format = PublishedFormat::kIdx;
  ImageShape shape;
  int64_t train_count = 0, test_count = 0;
  std::vector<PublishedLabels> labels;  // in the order of a record: coarsest first, finest last
  Normalization normalization;
  std::string folder;  // folder into which archives or other programs put the files
  std::vector<std::string> train, test;  // the files of a split, as the format requires
  std::vector<std::string> mirrors;      // URLs of folders, ending in '/'
  std::vector<PublishedFile> downloads;  // a ".tar.gz" contains the files above, in `folder`

  const PublishedLabels& labels_of(bool coarse) const {
    return coarse ? labels.front() : labels.back();
  }
  // Returns "folder/file" for every file to unpack from a ".tar.gz".
  std::vector<std::string> members() const;
};

// Returns all published sets. Thread-safe.
const std::vector<PublishedSet>& published_sets();
// Returns the mean and std of ImageNet, which most models of natural pictures use.
const Normalization& imagenet_normalization();
// Returns the set of this name, or nullptr.
const PublishedSet* find_published(std::string_view name);

}  // namespace tessera
