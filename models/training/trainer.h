// The trainer: trains a network from a configuration.
#pragma once

#include <string>
#include <utility>

#include "tessera/models/config/config.h"
#include "tessera/models/training/training.h"
#include "tessera/runtime/error.h"

namespace tessera {

// Thrown if a training reached its end, but its weights or last checkpoint could not be written.
class ResultNotKept : public CheckpointError {
 public:
  ResultNotKept(const std::string& text, TrainResult reached)
      : CheckpointError(text), result(std::move(reached)) {}
  TrainResult result;
};

// Trains as configured, writes the run folder and prints a line now and then. A resumed training
// ends with the same bits as an uninterrupted one. Throws ConfigError, DataError, DeviceError,
// CheckpointError if no good checkpoint can be resumed from or the last one cannot be written
// (ResultNotKept at the end), RunFolderError if the run folder cannot be used, and DivergedError if
// the loss is not finite.
TrainResult train(const Config& config, const Print& print, const TrainOptions& options = {});

}  // namespace tessera
