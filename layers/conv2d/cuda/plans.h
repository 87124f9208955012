// Convolutions by cuDNN: which plan computes one pass for one shape on a GPU, and its runs. For
// files of the GPU back end only.
#pragma once

#include <optional>
#include <string>

#include "tessera/layers/conv2d/cuda/kernels.h"
#include "tessera/runtime/cuda/dnn_plans.h"

namespace tessera {

// The tensors of a graph, by the numbers that it is run with.
enum ConvTensor : int64_t { kConvX = 'x', kConvW = 'w', kConvY = 'y' };

// Whether cuDNN is asked at all: not about float64, nor about tensors without elements.
bool conv_may_have_plan(const ConvRequest& request);
// Under which a plan is kept: all that conv_graph() makes, in words.
std::string conv_plan_text(const ConvRequest& request);
// The request as a finalised graph of one operation; nothing where cuDNN is not asked, or has
// no such operation.
std::optional<DnnDescriptor> conv_graph(const ConvRequest& request);
// The plan that is taken under the rules; nothing where there is none. Looks into no cache.
std::optional<DnnPlan> conv_plan(const ConvRequest& request, const DeviceProperties& properties,
                                 const GpuSettings& settings);

// The inputs as ConvPass lists them.
struct ConvPointers {
  void *a, *b, *out, *scratch;
  bool operator==(const ConvPointers&) const = default;
};

// One plan, made ready to run. Runs one at a time: cuDNN's plans are not for several threads.
class ConvPlanRun {
 public:
  // Throws DeviceError where cuDNN does not make this plan here.
  ConvPlanRun(const ConvRequest& request, const CachedPlan& plan,
              const DeviceProperties& properties)
      : pass_(request.pass), plan_(std::move(dnn_plan_of(plan.text, properties).plan)) {}

  // Issues it on the stream of `where`; throws what cuda_check() throws.
  void run(CudaContext& ctx, const ConvPointers& now);

 private:
  void make_pack(const ConvPointers& now);

  ConvPass pass_;
  DnnDescriptor plan_;
  // In a compiled step the addresses are the same in every run, and it is made once.
  std::optional<DnnDescriptor> pack_;
  ConvPointers packed_{};
};

}  // namespace tessera
