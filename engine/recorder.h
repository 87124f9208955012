// The seam between apply() and capture: while a recorder is set, ops are written down, not run.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"

namespace tessera {

class Recorder {
 public:
  virtual ~Recorder() = default;
  // Writes one call down and returns its symbolic outputs.
  virtual Tensors record(const OpPtr& op, std::span<const Tensor> inputs, const Specs& outputs) = 0;
  // A value fixed at capture.
  virtual Tensor record_constant(const Tensor& value) = 0;
  // Pins the tensor's current version, so that a later read sees the values of now.
  virtual Tensor snapshot(const Tensor& tensor) = 0;
  // Counts the versions of a tensor as the recording sees them.
  virtual uint64_t version(const Tensor& tensor) = 0;
};

Recorder* current_recorder();

class RecorderScope {
 public:
  explicit RecorderScope(Recorder* recorder);
  ~RecorderScope();
  RecorderScope(const RecorderScope&) = delete;
  RecorderScope& operator=(const RecorderScope&) = delete;

 private:
  Recorder* outer_;
};

}  // namespace tessera
