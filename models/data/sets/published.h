// The data sets that others publish as files: all that opening, memory needs, configurations and
// `trainer data fetch` know of them. Another one in one of the formats is one more entry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

enum class PublishedFormat {
  kIdx,    // published_files.h; a split is its file of images, then that of labels, plain or ".gz"
  kCifar,  // published_files.h; a split is any number of files with equally many records
};

// One of the labels of an image.
struct PublishedLabels {
  int classes = 0;
  std::vector<std::string> names;  // empty, or one per class
  std::string names_file;          // beside the images, a line for each class; "": there is none
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
  std::vector<PublishedLabels> labels;  // as a record has them: the coarsest first, the finest last
  Normalization normalization;
  std::string folder;                    // that archives, or other programs, put the files into
  std::vector<std::string> train, test;  // the files of a split, as the format wants them
  std::vector<std::string> mirrors;      // URLs of folders, ending in '/'
  std::vector<PublishedFile> downloads;  // a ".tar.gz" has the files above, in `folder`

  const PublishedLabels& labels_of(bool coarse) const {
    return coarse ? labels.front() : labels.back();
  }
  // "folder/file" of every file that a ".tar.gz" is unpacked for.
  std::vector<std::string> members() const;
};

// All of them. Thread-safe.
const std::vector<PublishedSet>& published_sets();
// Mean and deviation of natural pictures, as measured on ImageNet and used by most models of them.
const Normalization& imagenet_normalization();
// The one of that name; null when there is none.
const PublishedSet* find_published(std::string_view name);

}  // namespace tessera
