// Batches of random bytes, for steps that need no data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/memory/regions.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

class CompiledStep;  // graph/compile.h
class Session;       // session.h
struct Config;       // models/config/config.h

// A few of them, so that no step repeats the one before.
class GeneratedBatches {
 public:
  // Of config.data.batch images of the shape that the session takes, in its staging memory.
  GeneratedBatches(const Config& config, const Session& session);
  // What it takes of the machine.
  static int64_t planned_bytes(int64_t batch, const ImageShape& image);

  // The arguments of training step `index` for `count` images, at most a batch, to be submitted.
  // Allocates nothing.
  void fill(Session& session, CompiledStep& step, int64_t index, int64_t count) const;
  // Those of an evaluation.
  void fill_evaluation(CompiledStep& step, int64_t index, int64_t count) const;

 private:
  size_t first_image(int64_t index) const;

  size_t batch_, image_bytes_;
  double lr_;
  Region region_;
  std::span<int32_t> labels_;
  std::span<uint8_t> images_;
};

}  // namespace tessera
