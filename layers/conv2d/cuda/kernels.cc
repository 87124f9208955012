#include "tessera/layers/conv2d/cuda/kernels.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/prepare.h"
#include "tessera/engine/scope.h"
#include "tessera/layers/conv2d/cuda/plans.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/integers.h"
#include "tessera/runtime/log.h"

namespace tessera {
namespace {

constexpr const char* kDnn = "cudnn";
constexpr const char* kDirect = "direct";

using PlansPtr = std::shared_ptr<const CachedPlans>;

bool measured(const CachedPlan& plan) { return plan.microseconds > 0; }

// Moves measured plans to the front, the fastest first.
void prefer_measured(CachedPlans& plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const CachedPlan& a, const CachedPlan& b) {
    return measured(a) && (!measured(b) || a.microseconds < b.microseconds);
  });
}

// Logs once that no plan was measured. Called when a plan runs, as plans are also requested for
// batches that are only considered.
void note_unmeasured(const ConvRequest& request) {
  static std::once_flag noted;
  std::call_once(noted, [&] {
    log(LogLevel::warning,
        fmt::format("gpu.plans: autotuned, but no plan was measured here for {}; cuDNN's choice is "
                    "used for all that were not measured; run trainer tune",
                    conv_text(request)));
  });
}

// Returns the plans for a request, possibly none; caches them for this process.
PlansPtr answer(const ConvRequest& request, const DeviceProperties& properties,
                const GpuSettings& given) {
  const GpuSettings settings = conv_settings(request, given);
  static std::mutex mutex;
  static auto* answers = new std::map<std::string, PlansPtr>;
  const std::string what = conv_plan_text(request);
  const std::string key = fmt::format(
      "{} {} {} {} {} {} {}", what, settings.workspace, settings.deterministic, settings.tf32,
      settings.plans == GpuPlans::autotuned, properties.index, properties.description);
  std::lock_guard lock(mutex);
  PlansPtr& found = (*answers)[key];
  if (!found) {
    CachedPlans plans = kept_dnn_plans(
        what, [&] { return conv_graph(request); }, properties, settings);
    if (settings.plans == GpuPlans::autotuned) prefer_measured(plans);
    found = std::make_shared<CachedPlans>(std::move(plans));
  }
  return found;
}

// Returns the bytes at the beginning of scratch for the gradient of filters of 16 bits as cuDNN
// writes it, in 16 bits; else 0.
size_t rounded_result(const ConvRequest& request) {
  if (request.result() == request.dtype) return 0;
  const int64_t bytes = request.shape.weights() * static_cast<int64_t>(size_of(request.dtype));
  return static_cast<size_t>(round_up(bytes, 256));
}

// Returns the plans that need no more scratch than was planned.
CachedPlans within(const CachedPlans& plans, size_t scratch_bytes) {
  CachedPlans fitting;
  for (const CachedPlan& plan : plans)
    if (static_cast<size_t>(plan.workspace_bytes) <= scratch_bytes) fitting.push_back(plan);
  return fitting;
}

// Calls cuDNN; returns an empty string, or why this plan cannot be used. Throws errors that no
// other plan would avoid.
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
  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    direct_conv(request_, as_cuda(ctx), in[0].data, in[1].data, out[0].data, scratch.data);
  }

 private:
  const ConvRequest request_;
};

// Runs the first plan that works, which the first run finds. That run is not captured: an engine
// that cuDNN proposes and finalises may still fail to launch.
class DnnConvKernel final : public Kernel {
 public:
  DnnConvKernel(const ConvRequest& request, CachedPlans plans, const Target& target)
      : request_(request),
        rounded_(rounded_result(request)),
        plans_(std::move(plans)),
        properties_(*target.properties),
        autotuned_(target.gpu.plans == GpuPlans::autotuned),
        place_(op_at(current_op(), current_module_path())) {
    make_plan();
  }

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    CudaContext& gpu = as_cuda(ctx);
    char* workspace = scratch.as<char>() + rounded_;
    Buffer written = out[0];
    if (rounded_ > 0) written.data = scratch.data, written.spec.dtype = request_.dtype;
    const ConvPointers now{in[0].data, in[1].data, written.data, workspace};
    if (!runs(gpu, now)) return direct_conv(request_, gpu, now.a, now.b, out[0].data, workspace);
    if (rounded_ > 0) cast_elements(ctx, written, out[0]);
  }

 private:
  // Runs the plan; returns false if there is none, or none that works.
  bool runs(CudaContext& gpu, const ConvPointers& now) {
    while (plan_ && aligned(now)) {
      if (has_run_) return plan_->run(gpu, now), true;
      const std::string fault = fault_of([&] { plan_->run(gpu, now); });
      has_run_ = fault.empty();
      if (has_run_ && autotuned_ && !measured(plans_.front())) note_unmeasured(request_);
      if (has_run_) return true;
      give_up(fault);
      make_plan();
    }
    return false;
  }

  // Makes the first plan that cuDNN accepts on this GPU.
  void make_plan() {
    for (; !plan_ && !plans_.empty();) {
      const std::string fault =
          fault_of([&] { plan_.emplace(request_, plans_.front(), properties_); });
      if (!fault.empty()) give_up(fault);
    }
  }

  void give_up(const std::string& fault) {
    const int64_t engine = plans_.front().engine;
    plan_.reset();
    plans_.erase(plans_.begin());
    log(LogLevel::warning,
        fmt::format("{}: cuDNN's engine {} cannot compute {}: {}; {} is used from now on", place_,
                    engine, conv_text(request_), fault,
                    plans_.empty() ? "a kernel without cuDNN"
                                   : fmt::format("its engine {}", plans_.front().engine)));
  }

  bool aligned(const ConvPointers& p) const {
    const auto fits = [&](void* data) {
      return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(request_.alignment) == 0;
    };
    return fits(p.a) && fits(p.b) && fits(p.out);
  }

  const ConvRequest request_;
  const size_t rounded_;
  CachedPlans plans_;  // plans not given up; plan_ is made from the first
  const DeviceProperties& properties_;
  const bool autotuned_;
  const std::string place_;
  bool has_run_ = false;
  std::optional<ConvPlanRun> plan_;
};

}  // namespace

std::vector<Algorithm> dnn_algorithms(const ConvRequest& request,
                                      const DeviceProperties& properties,
                                      const GpuSettings& settings) {
  const size_t direct = direct_conv_scratch(request);
  std::vector<Algorithm> all;
  if (conv_may_have_plan(request))
    if (const PlansPtr plans = answer(request, properties, settings); !plans->empty())
      all.push_back(
          {kDnn, rounded_result(request) +
                     std::max(static_cast<size_t>(plans->front().workspace_bytes), direct)});
  all.push_back({kDirect, direct});
  return all;
}

std::unique_ptr<Kernel> dnn_kernel(const ConvRequest& request, const Algorithm& chosen,
                                   CudaContext& ctx) {
  if (chosen.name == kDirect) return std::make_unique<DirectConvKernel>(request);
  const Target target = ctx.target();
  CachedPlans plans = within(*answer(request, *target.properties, target.gpu),
                             chosen.scratch_bytes - rounded_result(request));
  if (plans.empty()) throw InternalError("a cuDNN plan was chosen that does not exist");
  ctx.dnn();  // created now, as capture does not allow it
  return std::make_unique<DnnConvKernel>(request, std::move(plans), target);
}

}  // namespace tessera
