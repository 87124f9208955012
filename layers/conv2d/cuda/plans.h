// cuDNN's plans for one pass and one shape of a convolution on a GPU, and their runs. Only for
// files of the GPU back end.
#pragma once

#include <optional>
#include <string>

#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/runtime/cuda/dnn_plans.h"

namespace tessera {

// The IDs of the tensors of a graph.
enum ConvTensor : int64_t { kConvX = 'x', kConvW = 'w', kConvY = 'y' };

// Returns false for requests that cuDNN never gets: float64, and tensors without elements.
bool conv_may_have_plan(const ConvRequest& request);
// Returns the settings under which cuDNN is asked: products of 16-bit numbers may use tensor cores
// whatever GpuSettings::tf32 says of those of float32, as nothing is rounded.
GpuSettings conv_settings(const ConvRequest& request, const GpuSettings& settings);
// Returns the text of conv_graph() in the key of a cached plan.
std::string conv_plan_text(const ConvRequest& request);
// Returns the request as a finalised graph of one operation, whose tensors all have request.dtype
// and whose sums are float32's; nullopt if conv_may_have_plan() is false or cuDNN has no such
// operation.
std::optional<DnnDescriptor> conv_graph(const ConvRequest& request);

// Addresses of a run; a and b are the inputs in the order of ConvPass.
struct ConvPointers {
  void *a, *b, *out, *scratch;
  bool operator==(const ConvPointers&) const = default;
};

// A plan that is ready to run. Not thread-safe, as cuDNN's plans are not.
class ConvPlanRun {
 public:
  // Throws DeviceError if cuDNN cannot make this plan on this GPU.
  ConvPlanRun(const ConvRequest& request, const CachedPlan& plan,
              const DeviceProperties& properties)
      : pass_(request.pass), plan_(std::move(dnn_plan_of(plan.text, properties).plan)) {}

  // Issues the plan on the stream of `ctx`. Throws what cuda_check() throws.
  void run(CudaContext& ctx, const ConvPointers& now);

 private:
  void make_pack(const ConvPointers& now);

  ConvPass pass_;
  DnnDescriptor plan_;
  // The variant pack of packed_. Compiled steps make it once, as their addresses never change.
  std::optional<DnnDescriptor> pack_;
  ConvPointers packed_{};
};

}  // namespace tessera
