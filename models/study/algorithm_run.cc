#include "tessera/models/study/algorithm_run.h"

#include "tessera/engine/structural.h"

namespace tessera {

namespace {

Tensor operand(const TensorSpec& spec, uint64_t seed) {
  const bool is_float = spec.dtype == DType::f32 || spec.dtype == DType::f64;
  return is_float ? random_normal(spec.shape, seed, 0, 1, spec.dtype)
                  : zeros(spec.shape, spec.dtype);
}

}  // namespace

AlgorithmRun::AlgorithmRun(const Op& op, const Specs& in, const Algorithm& algorithm,
                           const AlgorithmRun* like)
    : kernel_(op.prepare(in, cpu_context(), algorithm)),
      scratch_(allocate_storage(algorithm.scratch_bytes, Device{}, true)) {
  for (size_t i = 0; i < in.size(); ++i)
    add(like != nullptr ? cast(like->tensors_[i], in[i].dtype) : operand(in[i], i + 1), in_);
  for (const TensorSpec& spec : op.infer(in)) add(empty(spec), out_);
}

void AlgorithmRun::add(const Tensor& tensor, std::vector<Buffer>& to) {
  tensors_.push_back(tensor);
  to.push_back({tensor.impl()->data(), tensor.spec()});
}

}  // namespace tessera
