#include "tessera/layers/ops/metrics.h"

#include <fmt/format.h>

#include "tessera/engine/op.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {

namespace {

template <class T>
bool among_largest(const T* z, int64_t classes, int64_t label, int64_t k) {
  if (label < 0 || label >= classes) return false;
  int64_t ahead = 0;
  for (int64_t j = 0; j < classes; ++j) {
    // Written so that a NaN on either side is ahead of the label.
    const bool behind = z[j] < z[label] || (z[j] == z[label] && j >= label);
    ahead += behind ? 0 : 1;
  }
  return ahead < k;
}

// params: k
class TopKCorrect final : public OpBase<TopKCorrect, int64_t> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "top_k_correct"; }
  Specs infer(SpecView in) const override {
    InputCheck check("top_k_correct", in, {"logits", "labels"});
    check.floats({0});
    check.rank(0, 2);
    check.dtype(1, DType::i32);
    check.shape(1, {in[0].shape[0]}, "one label for each row of logits");
    if (params < 1) check.fail(fmt::format("k must be at least 1, but is {}", params));
    return {{DType::f32, {}, {}}};
  }
  // Uses one thread: a batch of logits is too small to parallelize.
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      const int64_t n = in[0].spec.shape[0], classes = in[0].spec.shape[1];
      int64_t found = 0;
      for (int64_t i = 0; i < n; ++i) {
        const T* row = in[0].as<T>() + i * classes;
        found += among_largest(row, classes, in[1].as<int32_t>()[i], params) ? 1 : 0;
      }
      *out[0].as<float>() = static_cast<float>(found);
    });
  }
  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    return {{.scratch_bytes = target.device.is_cpu() ? 0 : static_cast<size_t>(in[0].shape[0])}};
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda)
      top_k_correct_cuda(ctx, params, in[0], in[1], out[0], scratch.as<uint8_t>());
  }

  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

}  // namespace

Tensor top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k) {
  return apply1(std::make_shared<TopKCorrect>(k), {logits, labels});
}

}  // namespace tessera
