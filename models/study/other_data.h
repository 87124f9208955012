// Data that a run was not trained with, and its own: as overrides of its configuration, and under
// its classes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/training/train_options.h"

namespace tessera {

// What `--data DATA` means for a run, whose configuration and text `inference`
// (models/run/inference.h) are given. DATA is a folder of class folders or one that has them in
// test or val, an HDF5 file, or NAME=PATH with a name of data_names(). Pictures are brought to the
// run's size and channels; the normalization, and how files are read where they are of the run's
// kind, stay the run's. Throws ConfigError, DataError where nothing is there.
std::vector<std::string> data_overrides(const std::string& data, const Config& run,
                                        const std::string& inference);

// The data with the labels that the run gives to classes of these names; as it is where that
// changes nothing, or where one of both names none. `print` is told how classes go. Throws
// DataError naming what classes the run does not have, with those that may be meant; ConfigError
// where there are too many.
std::shared_ptr<const Dataset> under_classes_of(const Config& config, const std::string& inference,
                                                std::shared_ptr<const Dataset> data,
                                                const Print& print);

}  // namespace tessera
