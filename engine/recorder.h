// Recorder, the interface between apply() and capture: while a recorder is set, apply() records ops
// instead of running them.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"

namespace tessera {

class Recorder {
 public:
  virtual ~Recorder() = default;
  // Records one call and returns its symbolic outputs.
  virtual Tensors record(const OpPtr& op, std::span<const Tensor> inputs, const Specs& outputs) = 0;
  // Records a value fixed at capture.
  virtual Tensor record_constant(const Tensor& value) = 0;
  // Returns a handle to the tensor's current version; later updates do not change its values.
  virtual Tensor snapshot(const Tensor& tensor) = 0;
  // Returns the number of the tensor's version in the recording.
  virtual uint64_t version(const Tensor& tensor) = 0;
};

Recorder* current_recorder();

struct RecorderScope : ValueScope<Recorder*> {
  explicit RecorderScope(Recorder* recorder);
};

}  // namespace tessera
