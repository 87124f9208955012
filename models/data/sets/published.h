// The table of published data sets, which opening, memory needs, configurations and `trainer data
// fetch` use, and the readers of their formats, IDX and CIFAR. Another data set in one of the
// formats is one more entry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

enum class PublishedFormat {
  kIdx,    // read_idx(): a split is its images file and its labels file, plain or ".gz"
  kCifar,  // read_cifar(): a split is any number of files of equal length
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

// Reads the IDX format of MNIST and similar sets (LeCun, Cortes, Burges): bytes 0 0, the type (8:
// uint8), the number of dimensions, each dimension as a big-endian uint32, then the data. Plain or
// ".gz".
//
// images: a file [count x H x W]; labels: a file [count], in [0, info.classes). info has name,
// classes, class_names and normalization; count and shape come from the files. Allocates memory
// only after the headers have been checked against the files. If most > 0, reads, and allocates
// memory for, at most the first `most` images. Throws DataError that names file and byte offset.
std::shared_ptr<const Dataset> read_idx(const std::string& images, const std::string& labels,
                                        DatasetInfo info, int64_t most = 0);

// The binary format of CIFAR-10 and CIFAR-100 (Krizhevsky 2009): records of one or two label bytes
// and 3072 pixel bytes: the red, green and blue planes of a 32x32 image.
struct CifarFormat {
  int label_bytes = 1;               // before the pixels: CIFAR-10 1, CIFAR-100 2 (coarse, fine)
  int label_at = 0;                  // index of the byte that is the label
  int64_t records_per_file = 10000;  // exact number in every file
};

// Reads the images of all files in order, as [32x32x3]. info has name, classes, class_names and
// normalization. Checks the sizes of all files before it allocates memory. If most > 0, reads at
// most the first `most` images. Throws DataError that names file, record and byte offset.
std::shared_ptr<const Dataset> read_cifar(const std::vector<std::string>& files,
                                          const CifarFormat& format, DatasetInfo info,
                                          int64_t most = 0);

}  // namespace tessera
