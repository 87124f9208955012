#include "tessera/layers/conv2d_cuda/kernels.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "tessera/layers/conv2d_cuda/direct.h"
#include "tessera/layers/conv2d_cuda/plans.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr const char* kDnn = "cudnn";
constexpr const char* kDirect = "direct";

// What was answered in this process, plan or none.
std::optional<CachedPlan> answer(const ConvRequest& request, const DeviceFacts& facts,
                                 const GpuSettings& settings) {
  static std::mutex mutex;
  static auto* answers = new std::map<std::string, std::optional<CachedPlan>>;
  const std::string what = conv_plan_text(request);
  const std::string key =
      fmt::format("{} {} {} {} {} {}", what, settings.workspace, settings.deterministic,
                  settings.tf32, facts.index, facts.description);
  std::lock_guard lock(mutex);
  if (const auto found = answers->find(key); found != answers->end()) return found->second;
  return (*answers)[key] = kept_dnn_plan(
             what, [&] { return conv_graph(request); }, facts, settings);
}

class DirectConvKernel final : public Kernel {
 public:
  explicit DirectConvKernel(const ConvRequest& request) : request_(request) {}
  void run(Context& where, Buffers in, Buffers out, Buffer scratch) override {
    direct_conv(request_, as_cuda(where), in[0].data, in[1].data, out[0].data, scratch.data);
  }

 private:
  const ConvRequest request_;
};

class DnnConvKernel final : public Kernel {
 public:
  DnnConvKernel(const ConvRequest& request, const CachedPlan& plan, const DeviceFacts& facts)
      : request_(request), plan_(dnn_plan_of(plan.text, facts)) {}

  void run(Context& where, Buffers in, Buffers out, Buffer scratch) override {
    CudaContext& gpu = as_cuda(where);
    const Pointers now{in[0].data, in[1].data, out[0].data, scratch.data};
    if (!aligned(now)) {
      direct_conv(request_, gpu, now.a, now.b, now.out, now.scratch);
      return;
    }
    if (!pack_ || !(now == packed_)) make_pack(now);
    CudaDeviceGuard guard(gpu.index());
    cuda_check(dnn().cudnnBackendExecute(gpu.dnn(), plan_.plan.handle(), pack_->handle()),
               "cudnnBackendExecute");
  }

 private:
  struct Pointers {
    void *a, *b, *out, *scratch;
    bool operator==(const Pointers&) const = default;
  };

  bool aligned(const Pointers& p) const {
    const auto fits = [&](void* data) {
      return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(request_.alignment) == 0;
    };
    return fits(p.a) && fits(p.b) && fits(p.out);
  }

  // In a compiled step the addresses are the same in every run, and nothing is made after the
  // first.
  void make_pack(const Pointers& now) {
    // As ConvPass lists inputs and output.
    constexpr int64_t kIds[][3] = {
        {kConvX, kConvW, kConvY}, {kConvY, kConvW, kConvX}, {kConvX, kConvY, kConvW}};
    void* data[] = {now.a, now.b, now.out};
    DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3,
             kIds[static_cast<int>(request_.pass)])
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &now.scratch)
        .finalize();
    pack_ = std::move(pack);
    packed_ = now;
  }

  const ConvRequest request_;
  const DnnPlan plan_;  // of this kernel alone: cuDNN's plans are not for several threads
  std::optional<DnnDescriptor> pack_;
  Pointers packed_{};
};

}  // namespace

std::vector<Algorithm> dnn_algorithms(const ConvRequest& request, const DeviceFacts& facts,
                                      const GpuSettings& settings) {
  const size_t direct = direct_conv_scratch(request);
  std::vector<Algorithm> all;
  if (conv_may_have_plan(request))
    if (const std::optional<CachedPlan> plan = answer(request, facts, settings))
      all.push_back({kDnn, std::max(static_cast<size_t>(plan->workspace_bytes), direct)});
  all.push_back({kDirect, direct});
  return all;
}

std::unique_ptr<Kernel> dnn_kernel(const ConvRequest& request, const Algorithm& chosen,
                                   CudaContext& where) {
  if (chosen.name == kDirect) return std::make_unique<DirectConvKernel>(request);
  const std::optional<CachedPlan> plan = answer(request, *where.facts(), where.target().gpu);
  if (!plan) throw InternalError("a plan of cuDNN was chosen that there is not");
  where.dnn();  // made now: while a step is captured it cannot be
  return std::make_unique<DnnConvKernel>(request, *plan, *where.facts());
}

}  // namespace tessera
