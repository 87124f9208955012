// The formats of published data sets (published.h): IDX and CIFAR's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

// The IDX format of MNIST and its kin (LeCun, Cortes, Burges): bytes 0 0, the type (8: uint8), the
// number of dimensions, each dimension as a big-endian uint32, then the data. Plain or ".gz".
//
// images: a file of three dimensions [count x H x W]; labels: of one, [count], in [0,
// info.classes). info brings name, classes, class_names and normalization; count and shape are the
// files' own. Memory is taken only after a header has been found to fit its file. most above 0: of
// more images the first so many are read, and no more memory is taken than they need. Throws
// DataError that names file and byte offset.
std::shared_ptr<const Dataset> read_idx(const std::string& images, const std::string& labels,
                                        DatasetInfo info, int64_t most = 0);

// The binary format of CIFAR-10 and CIFAR-100 (Krizhevsky 2009): records of one or two label bytes
// and 3072 pixel bytes, the planes red, green, blue of a 32x32 image.
struct CifarFormat {
  int label_bytes = 1;               // before the pixels: CIFAR-10 1, CIFAR-100 2 (coarse, fine)
  int label_at = 0;                  // which of them is the label
  int64_t records_per_file = 10000;  // every file must have so many, no more and no fewer
};

// The images of all files in order, as [32x32x3]. info brings name, classes, class_names and
// normalization. The sizes of all files are checked before memory is taken. most above 0: of more
// images the first so many are read. Throws DataError that names file, record and byte offset.
std::shared_ptr<const Dataset> read_cifar(const std::vector<std::string>& files,
                                          const CifarFormat& format, DatasetInfo info,
                                          int64_t most = 0);

}  // namespace tessera
