// inspect_data() and time_data(): what is in the data of a configuration, and how fast it is
// loaded.
#pragma once

#include <functional>

#include "tessera/runtime/text/report.h"

namespace tessera {

struct Config;  // models/config/config.h

// Reads every image of training, validation and test, and returns for each: the set, the sizes of
// its images, mean and std, the images of each class, and stray or damaged files. Calls `each` with
// one of them as soon as it is read. Throws DataError where opening or reading the data does.
Report inspect_data(const Config& config, const std::function<void(const Report&)>& each = {});

// Runs the training pipeline alone for at least so many seconds, and returns images per second, the
// time of its workers by kind of work, and its memory, calculated and measured.
Report time_data(const Config& config, double seconds);

}  // namespace tessera
