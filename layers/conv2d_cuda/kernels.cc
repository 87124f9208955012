#include "tessera/layers/conv2d_cuda/kernels.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "tessera/engine/holders.h"
#include "tessera/engine/scope.h"
#include "tessera/layers/conv2d_cuda/direct.h"
#include "tessera/layers/conv2d_cuda/plans.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"

namespace tessera {
namespace {

constexpr const char* kDnn = "cudnn";
constexpr const char* kDirect = "direct";

using PlansPtr = std::shared_ptr<const CachedPlans>;

// What was answered in this process, perhaps that there is none.
PlansPtr answer(const ConvRequest& request, const DeviceFacts& facts, const GpuSettings& settings) {
  static std::mutex mutex;
  static auto* answers = new std::map<std::string, PlansPtr>;
  const std::string what = conv_plan_text(request);
  const std::string key =
      fmt::format("{} {} {} {} {} {}", what, settings.workspace, settings.deterministic,
                  settings.tf32, facts.index, facts.description);
  std::lock_guard lock(mutex);
  PlansPtr& found = (*answers)[key];
  if (!found)
    found = std::make_shared<CachedPlans>(kept_dnn_plans(
        what, [&] { return conv_graph(request); }, facts, settings));
  return found;
}

// Those that need no more scratch than was planned.
CachedPlans within(const CachedPlans& plans, size_t scratch_bytes) {
  CachedPlans fitting;
  for (const CachedPlan& plan : plans)
    if (static_cast<size_t>(plan.workspace_bytes) <= scratch_bytes) fitting.push_back(plan);
  return fitting;
}

// What becomes of a call of cuDNN: nothing, or why this plan cannot be used, where another one can
// be. Throws what no other plan would mend.
template <class Call>
std::string fault_of(Call&& call) {
  try {
    call();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const DeviceLost&) {
    throw;
  } catch (const VersionMismatch&) {
    throw;
  } catch (const DeviceError& fault) {
    return fault.what();
  }
  return {};
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

// Computes by the first of the plans that runs. Which one that is shows in the first run, which
// is not captured: an engine that cuDNN proposes and finalises may still refuse to be launched.
class DnnConvKernel final : public Kernel {
 public:
  DnnConvKernel(const ConvRequest& request, CachedPlans plans, const DeviceFacts& facts)
      : request_(request),
        plans_(std::move(plans)),
        facts_(facts),
        place_(op_at(running_op(), current_module_path())) {
    make_plan();
  }

  void run(Context& where, Buffers in, Buffers out, Buffer scratch) override {
    CudaContext& gpu = as_cuda(where);
    const Pointers now{in[0].data, in[1].data, out[0].data, scratch.data};
    while (plan_ && aligned(now)) {
      if (has_run_) return execute(gpu, now);
      const std::string fault = fault_of([&] { execute(gpu, now); });
      has_run_ = fault.empty();
      if (has_run_) return;
      give_up(fault);
      make_plan();
    }
    direct_conv(request_, gpu, now.a, now.b, now.out, now.scratch);
  }

 private:
  struct Pointers {
    void *a, *b, *out, *scratch;
    bool operator==(const Pointers&) const = default;
  };

  // The first of the plans that cuDNN makes here.
  void make_plan() {
    for (; !plan_ && !plans_.empty();) {
      const std::string fault =
          fault_of([&] { plan_ = std::move(dnn_plan_of(plans_.front().text, facts_).plan); });
      if (!fault.empty()) give_up(fault);
    }
  }

  void give_up(const std::string& fault) {
    const int64_t engine = plans_.front().engine;
    plan_.reset();
    pack_.reset();
    plans_.erase(plans_.begin());
    log(LogLevel::warning,
        fmt::format("{}: cuDNN's engine {} cannot compute {}: {}; {} does from now on", place_,
                    engine, conv_text(request_), fault,
                    plans_.empty() ? "a kernel without cuDNN"
                                   : fmt::format("its engine {}", plans_.front().engine)));
  }

  void execute(CudaContext& gpu, const Pointers& now) {
    if (!pack_ || !(now == packed_)) make_pack(now);
    CudaDeviceGuard guard(gpu.index());
    cuda_check(dnn().cudnnBackendExecute(gpu.dnn(), plan_->handle(), pack_->handle()),
               "cudnnBackendExecute");
  }

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
  CachedPlans plans_;  // what was not given up; plan_ is made from the first
  const DeviceFacts& facts_;
  const std::string place_;
  bool has_run_ = false;
  std::optional<DnnDescriptor> plan_;  // of this kernel alone: plans are not for several threads
  std::optional<DnnDescriptor> pack_;
  Pointers packed_{};
};

}  // namespace

std::vector<Algorithm> dnn_algorithms(const ConvRequest& request, const DeviceFacts& facts,
                                      const GpuSettings& settings) {
  const size_t direct = direct_conv_scratch(request);
  std::vector<Algorithm> all;
  if (conv_may_have_plan(request))
    if (const PlansPtr plans = answer(request, facts, settings); !plans->empty())
      all.push_back({kDnn, std::max(static_cast<size_t>(plans->front().workspace_bytes), direct)});
  all.push_back({kDirect, direct});
  return all;
}

std::unique_ptr<Kernel> dnn_kernel(const ConvRequest& request, const Algorithm& chosen,
                                   CudaContext& where) {
  if (chosen.name == kDirect) return std::make_unique<DirectConvKernel>(request);
  CachedPlans plans =
      within(*answer(request, *where.facts(), where.target().gpu), chosen.scratch_bytes);
  if (plans.empty()) throw InternalError("a plan of cuDNN was chosen that there is not");
  where.dnn();  // made now: while a step is captured it cannot be
  return std::make_unique<DnnConvKernel>(request, std::move(plans), *where.facts());
}

}  // namespace tessera
