#include "tessera/layers/shared/sample_pointwise.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Runs each sample as a pointwise program over [.., c] and [c].
class SamplePointwiseKernel final : public Kernel {
 public:
  SamplePointwiseKernel(const ScalarProgram& program, SpecView in)
      : samples_(in[0].shape[0]),
        size_(in[0].shape.elements(1, in[0].shape.rank())),
        plan_(plan(program, in)) {
    const Shape& y = in[0].shape;
    for (const TensorSpec& x : in)
      strides_.push_back((x.shape == y          ? size_
                          : x.shape.rank() == 2 ? y.back()
                                                : 0) *
                         static_cast<int64_t>(size_of(x.dtype)));
  }

  void run(Context& ctx, Buffers in, Buffers out, Buffer) override {
    const int64_t parts = (size_ + kTask - 1) / kTask;
    static_cast<CpuContext&>(ctx).pool().parallel_for(samples_ * parts, [&](int64_t task) {
      const int64_t sample = task / parts, first = task % parts * kTask;
      const void* inputs[kMaxScalarRegisters];
      for (size_t k = 0; k < in.size(); ++k) inputs[k] = in[k].as<char>() + sample * strides_[k];
      const PointwiseRun run(plan_, inputs, out[0].as<char>() + sample * strides_[0]);
      run.apply(first, std::min(kTask, size_ - first));
    });
  }

 private:
  static constexpr int64_t kTask = 16384;  // elements

  PointwisePlan plan(const ScalarProgram& program, SpecView in) const {
    std::vector<Broadcast> broadcasts;
    PointwiseOptions stored{.result = in[0].dtype};
    for (const TensorSpec& x : in) {
      broadcasts.push_back({1, x.shape == in[0].shape ? size_ : in[0].shape.back()});
      stored.inputs.push_back(x.dtype);
    }
    return {program, compute_type(in[0].dtype), broadcasts, size_, stored};
  }

  const int64_t samples_, size_;
  const PointwisePlan plan_;
  std::vector<int64_t> strides_;  // bytes from sample to sample
};

}  // namespace

Specs SamplePointwise::infer(SpecView in) const {
  const Shape& y = in[0].shape;
  for (const TensorSpec& x : in) {
    const bool fits = y.rank() >= 2 && (x.shape == y || x.shape == Shape{y.back()} ||
                                        x.shape == Shape{y[0], y.back()});
    if (!fits || !are_mixable(x.dtype, in[0].dtype))
      throw ShapeError(
          fmt::format("{}: {} cannot be combined with {}: inputs must be [n, .., c], [n, c] or "
                      "[c], floating point and not float64 mixed with others",
                      name(), x.text(), in[0].text()));
  }
  return {in[0]};
}

std::unique_ptr<Kernel> SamplePointwise::prepare(SpecView in, Context& ctx,
                                                 const Algorithm&) const {
  if constexpr (kCuda) {
    if (!ctx.device().is_cpu()) {
      const Shape& y = in[0].shape;
      const int64_t c = y.back(), size = y.elements(1, y.rank());
      std::vector<PointwiseRead> reads;
      for (const TensorSpec& x : in) {
        if (x.shape == y)
          reads.push_back({.period = y.elements(), .type = x.dtype});
        else
          reads.push_back({.period = c,
                           .sample = size,
                           .stride = x.shape.rank() == 2 ? c : 0,
                           .type = x.dtype});
      }
      return pointwise_cuda(params.program, in[0].dtype, y.elements(), reads);
    }
  }
  return std::make_unique<SamplePointwiseKernel>(params.program, in);
}

Tensor sample_pointwise(std::string name, ScalarProgram program, Tensors inputs) {
  return apply1(
      std::make_shared<SamplePointwise>(SamplePointwiseParams{std::move(name), std::move(program)}),
      std::move(inputs));
}

}  // namespace tessera
