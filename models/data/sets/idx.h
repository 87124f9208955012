// The IDX format of MNIST and its kin (LeCun, Cortes, Burges): bytes 0 0, the type (8: uint8), the
// number of dimensions, each dimension as a big-endian uint32, then the data. Plain or ".gz".
#pragma once

#include <memory>
#include <string>

#include "tessera/models/data/dataset.h"

namespace tessera {

// images: a file of three dimensions [count x H x W]; labels: of one, [count], in [0,
// info.classes). info brings name, classes, class_names and normalization; count and shape are the
// files' own. Memory is taken only after a header has been found to fit its file. most above 0: of
// more images the first so many are read, and no more memory is taken than they need. Throws
// DataError that names file and byte offset.
std::shared_ptr<const Dataset> read_idx(const std::string& images, const std::string& labels,
                                        DatasetInfo info, int64_t most = 0);

}  // namespace tessera
