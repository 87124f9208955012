// The trained network of a run folder on its test data.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/training/train_options.h"
#include "tessera/models/training/train_result.h"

namespace tessera {

// Evaluates a run folder on its test data: the weights at the end of training, or with `checkpoint`
// those of one: "best", "latest" or a file. Throws as train() does.
TrainResult evaluate_run(const std::string& run_dir, const std::string& checkpoint,
                         const std::vector<std::string>& overrides, const Print& print);

}  // namespace tessera
