// One plan of cuDNN for a convolution, made ready to run. For files of the GPU back end only.
#pragma once

#include <optional>
#include <string>

#include "tessera/layers/conv2d/cuda/plans.h"

namespace tessera {

// The inputs as ConvPass lists them.
struct ConvPointers {
  void *a, *b, *out, *scratch;
  bool operator==(const ConvPointers&) const = default;
};

// Runs one at a time: cuDNN's plans are not for several threads.
class ConvPlanRun {
 public:
  // Throws DeviceError where cuDNN does not make this plan here.
  ConvPlanRun(const ConvRequest& request, const CachedPlan& plan, const DeviceFacts& facts)
      : pass_(request.pass), plan_(std::move(dnn_plan_of(plan.text, facts).plan)) {}

  // Issues it on the stream of `where`; throws what cuda_check() throws.
  void run(CudaContext& where, const ConvPointers& now);

 private:
  void make_pack(const ConvPointers& now);

  ConvPass pass_;
  DnnDescriptor plan_;
  // In a compiled step the addresses are the same in every run, and it is made once.
  std::optional<DnnDescriptor> pack_;
  ConvPointers packed_{};
};

}  // namespace tessera
