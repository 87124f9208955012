#include <algorithm>
#include <limits>

#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d/cuda/plans.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr size_t kMaxPlans = 16;
constexpr int kRounds = 5, kRunsInRound = 4;
constexpr double kTooSlow = 3;  // times the fastest so far: not measured precisely

class TimingEvent {
 public:
  TimingEvent() { cuda_check(cudaEventCreate(&handle_), "cudaEventCreate"); }
  ~TimingEvent() { cudaEventDestroy(handle_); }
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

// Returns one image or filter of random values, repeated, on the GPU. Values matter, as they change
// the power.
Tensor noise(Shape shape, uint64_t seed, DType dtype, Device gpu) {
  const Shape whole = shape;
  shape[0] = 1;
  const Tensor one = copy(random_uniform(shape, seed, -1, 1, dtype), gpu);
  return expand(one, whole);
}

class Measurement {
 public:
  Measurement(const ConvRequest& request, CudaContext& ctx)
      : request_(request), ctx_(ctx), guard_(ctx.index()) {
    const ConvShape& s = request.shape;
    const Shape x{s.n, s.h, s.w, s.c}, w{s.o, s.kh, s.kw, s.c / s.groups},
        y{s.n, s.out_h(), s.out_w(), s.o};
    const ConvPass pass = request.pass;
    a_ = noise(pass == ConvPass::input_grad ? y : x, 1, request.dtype, ctx.device());
    b_ = noise(pass == ConvPass::weight_grad ? y : w, 2, request.dtype, ctx.device());
    out_ = full(pass == ConvPass::forward      ? y
                : pass == ConvPass::input_grad ? x
                                               : w,
                0, request.dtype);
  }

  // Returns the measured time; 0 if the plan does not run.
  double microseconds(const CachedPlan& plan) {
    try {
      const auto scratch =
          allocate_storage(static_cast<size_t>(plan.workspace_bytes), ctx_.device(), true);
      ConvPlanRun run(request_, plan, *ctx_.properties());
      const ConvPointers at{a_.impl()->data(), b_.impl()->data(), out_.impl()->data(),
                            scratch->pointer};
      once(run, at, 1);  // triggers lazy loading
      double time = once(run, at, 1);
      if (time < kTooSlow * fastest_) {
        double rounds[kRounds];
        for (double& round : rounds) round = once(run, at, kRunsInRound);
        std::nth_element(rounds, rounds + kRounds / 2, rounds + kRounds);
        time = rounds[kRounds / 2];
      }
      fastest_ = std::min(fastest_, time);
      return time;
    } catch (const DeviceLost&) {
      throw;
    } catch (const DeviceError&) {  // another plan may still run
      return 0;
    }
  }

 private:
  double once(ConvPlanRun& run, const ConvPointers& at, int runs) {
    cuda_check(cudaEventRecord(begin_.handle(), ctx_.cuda_stream()), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) run.run(ctx_, at);
    cuda_check(cudaEventRecord(end_.handle(), ctx_.cuda_stream()), "cudaEventRecord");
    cuda_check(cudaEventSynchronize(end_.handle()), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, begin_.handle(), end_.handle()),
               "cudaEventElapsedTime");
    return 1000.0 * static_cast<double>(milliseconds) / runs;
  }

  const ConvRequest& request_;
  CudaContext& ctx_;
  const CudaDeviceGuard guard_;  // events are created on the current GPU
  TimingEvent begin_, end_;
  Tensor a_, b_, out_;
  double fastest_ = std::numeric_limits<double>::infinity();
};

}  // namespace

CachedPlans tune_conv(const ConvRequest& request, CudaContext& ctx, PlanCache& cache) {
  const DeviceProperties& properties = *ctx.properties();
  const GpuSettings settings = conv_settings(request, ctx.target().gpu);
  CachedPlans plans = dnn_plan_texts(conv_graph(request), properties, settings, kMaxPlans);
  if (plans.empty()) return plans;
  const DeviceScope scope(ctx.device());
  Measurement measurement(request, ctx);
  for (CachedPlan& plan : plans) plan.microseconds = measurement.microseconds(plan);
  cache.keep(dnn_plan_key(conv_plan_text(request), properties, settings), plans);
  return plans;
}

}  // namespace tessera
