#include "tessera/layers/shared/sample_pointwise.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
Specs SamplePointwise::infer(std::span<const TensorSpec> in) const {
  const Shape& y = in[0].shape;
  for (const TensorSpec& x : in) {
    const bool fits = y.rank() >= 2 && (x.shape == y || x.shape == Shape{y.back()} ||
                                        x.shape == Shape{y[0], y.back()});
    if (!fits || x.dtype != in[0].dtype || !is_float(x.dtype))
      throw ShapeError(
          fmt::format("{}: {} does not fit to {}: inputs are [n, .., c], [n, c] or "
                      "[c], of one floating-point dtype",
                      name(), x.text(), in[0].text()));
  }
  return {in[0]};
}

bool SamplePointwise::runs_on(DeviceKind kind) const { return kind == DeviceKind::cpu || kCuda; }

std::unique_ptr<Kernel> SamplePointwise::prepare(std::span<const TensorSpec> in, Context& where,
                                                 const Algorithm& chosen) const {
  if constexpr (kCuda) {
    if (!where.device().is_cpu()) {
      const Shape& y = in[0].shape;
      const int64_t c = y.back(), size = y.elements(1, y.rank());
      std::vector<PointwiseRead> reads;
      for (const TensorSpec& x : in) {
        if (x.shape == y)
          reads.push_back({.period = y.elements()});
        else
          reads.push_back({.period = c, .sample = size, .stride = x.shape.rank() == 2 ? c : 0});
      }
      return pointwise_cuda(params.program, in[0].dtype, y.elements(), reads);
    }
  }
  return Op::prepare(in, where, chosen);
}

void SamplePointwise::run(CpuContext& where, Buffers in, Buffers out, Buffer) const {
  constexpr int64_t kTask = 16384;  // elements
  const TensorSpec& y = out[0].spec;
  const int64_t c = y.shape.back(), size = y.shape.elements(1, y.shape.rank());
  const int64_t parts = (size + kTask - 1) / kTask;
  const auto element = static_cast<int64_t>(size_of(y.dtype));
  where.pool().parallel_for(y.shape[0] * parts, [&](int64_t task) {
    const int64_t sample = task / parts, first = task % parts * kTask;
    const void* inputs[kMaxScalarRegisters];
    Broadcast broadcasts[kMaxScalarRegisters];
    for (size_t k = 0; k < in.size(); ++k) {
      const Shape& x = in[k].spec.shape;
      const bool whole = x == y.shape;
      const int64_t stride = whole ? size : x.rank() == 2 ? c : 0;
      inputs[k] = in[k].as<char>() + sample * stride * element;
      broadcasts[k] = {1, whole ? size : c};
    }
    run_scalar_program(params.program, y.dtype, inputs, broadcasts, size, first,
                       std::min(kTask, size - first),
                       out[0].as<char>() + (sample * size + first) * element);
  });
}

Tensor sample_pointwise(std::string name, ScalarProgram program, Tensors inputs) {
  return apply1(
      std::make_shared<SamplePointwise>(SamplePointwiseParams{std::move(name), std::move(program)}),
      std::move(inputs));
}

}  // namespace tessera
