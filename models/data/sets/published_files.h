// Readers of the formats of published data sets (published.h): IDX and CIFAR.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

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
