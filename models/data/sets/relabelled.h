// A data set under the classes of another one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

// The same images; label l becomes labels[l], in [0, classes). `names`: empty, or one per class.
// Throws Error where an image has a label for which there is none.
std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> data,
                                          std::vector<int64_t> labels, int classes,
                                          std::vector<std::string> names);

}  // namespace tessera
