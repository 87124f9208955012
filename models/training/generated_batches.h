// GeneratedBatches: batches of random bytes, for steps that need no data.
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

// A few batches in rotation, so that no step repeats the one before.
class GeneratedBatches {
 public:
  // Generates batches of config.data.batch images, in the session's image shape and staging memory.
  GeneratedBatches(const Config& config, const Session& session);
  // Returns the bytes that the constructor allocates.
  static int64_t planned_bytes(int64_t batch, const ImageShape& image);

  // Writes the arguments of training step `index` for `count` images, at most a batch, of which it
  // takes the session's own; submit the step next. Allocates nothing.
  void fill(Session& session, CompiledStep& step, int64_t index, int64_t count) const;
  // Writes the arguments of an evaluation step: all labels of a batch, and its images from image
  // `first` on.
  void fill_images(CompiledStep& step, int64_t index, int64_t count, int64_t first = 0) const;

 private:
  static constexpr size_t kBatches = 4;
  size_t first_image(int64_t index) const;

  size_t batch_, image_bytes_;
  double lr_;
  Region region_;
  std::span<int32_t> labels_;
  std::span<uint8_t> images_;
};

}  // namespace tessera
