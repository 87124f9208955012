#include "tessera/layers/matmul.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/epilogue.h"
#include "tessera/layers/shared/gemm_cpu.h"
#include "tessera/layers/shared/gemm_eigen.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

namespace {

// The sizes, taken as they are; infer() has checked that they fit.
GemmShape gemm_shape(const MatmulParams& params, const TensorSpec& a, const TensorSpec& b) {
  return {.m = a.shape[params.transpose_a ? 1 : 0],
          .n = b.shape[params.transpose_b ? 0 : 1],
          .k = a.shape[params.transpose_a ? 0 : 1],
          .transpose_a = params.transpose_a,
          .transpose_b = params.transpose_b};
}

// Inputs: a, b, then what the epilogue reads besides the product.
struct EpilogueParams {
  MatmulParams product;
  ScalarProgram epilogue = no_epilogue();
  bool operator==(const EpilogueParams&) const = default;
};

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const GemmShape& shape, const ScalarProgram& epilogue, bool eigen)
      : shape_(shape), epilogue_(epilogue), eigen_(eigen) {}

  void run(Context& where, Buffers in, Buffers out, Buffer scratch) override {
    ThreadPool& pool = static_cast<CpuContext&>(where).pool();
    visit_float(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      const T *a = in[0].as<T>(), *b = in[1].as<T>();
      if (eigen_) {
        eigen_gemm<T>(pool, shape_, a, b, out[0].as<T>(), scratch.data);
      } else if constexpr (kNativeKernels) {
        gemm<T>(pool, shape_, a, b, out[0].as<T>(), scratch.data);
      }
    });
    if (!epilogue_.code.empty()) run_epilogue(pool, in, out[0]);
  }

 private:
  // The product of a linear layer is small, so it is still in the cache when this reads it.
  void run_epilogue(ThreadPool& pool, Buffers in, const Buffer& out) const {
    constexpr int64_t kBlock = 4096;
    const EpilogueRun epilogue(epilogue_, in.subspan(2), out);
    const int64_t total = out.elements();
    pool.parallel_for((total + kBlock - 1) / kBlock, [&](int64_t block) {
      const int64_t first = block * kBlock;
      epilogue.apply(first, std::min(kBlock, total - first));
    });
  }

  const GemmShape shape_;
  const ScalarProgram epilogue_;
  const bool eigen_;
};

class Matmul final : public OpBase<Matmul> {
 public:
  explicit Matmul(EpilogueParams params) : params(std::move(params)) {}
  std::string_view name() const override { return "matmul"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check("matmul", in.first(std::min<size_t>(in.size(), 2)), {"a", "b"});
    check.floats();
    check.rank(0, 2);
    check.rank(1, 2);
    const auto [ta, tb] = params.product;
    const GemmShape shape = gemm_shape(params.product, in[0], in[1]);
    if (const int64_t rows = in[1].shape[tb ? 1 : 0]; rows != shape.k) {
      check.fail(fmt::format("a{} has {} columns but b{} has {} rows", ta ? " transposed" : "",
                             shape.k, tb ? " transposed" : "", rows));
    }
    return {{in[0].dtype, {shape.m, shape.n}, {}}};
  }

  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::cpu || kCuda; }

  std::vector<Algorithm> algorithms(std::span<const TensorSpec> in, Context& where) const override {
    if (!where.device().is_cpu()) return {{.scratch_bytes = kMatmulCudaScratch}};
    const GemmShape shape = gemm_shape(params.product, in[0], in[1]);
    const size_t element = size_of(in[0].dtype);
    std::vector<Algorithm> all;
    if constexpr (kNativeKernels)
      if (has_native_kernels())
        all.push_back({"native", gemm_scratch(shape, element, where.threads())});
    all.push_back({"eigen", eigen_gemm_scratch(shape, element, where.threads())});
    return all;
  }

  std::unique_ptr<Kernel> prepare(std::span<const TensorSpec> in, Context& where,
                                  const Algorithm& chosen) const override {
    if constexpr (kCuda)
      if (!where.device().is_cpu()) return matmul_cuda(params.product, in, where);
    return std::make_unique<MatmulKernel>(gemm_shape(params.product, in[0], in[1]), params.epilogue,
                                          chosen.name == "eigen");
  }

  bool differentiable() const override { return params.epilogue.code.empty(); }
  Saved saved() const override { return {.inputs = 0b11}; }

  Tensors grad(const GradArgs& args) const override {
    const auto [ta, tb] = params.product;
    const Tensor &a = args.inputs[0], &b = args.inputs[1], &dy = args.grad_outputs[0];
    Tensors grads(2);
    if (args.needs(0)) {
      grads[0] = ta ? matmul(b, dy, {tb, true}) : matmul(dy, b, {false, !tb});
    }
    if (args.needs(1)) {
      grads[1] = tb ? matmul(dy, a, {true, ta}) : matmul(a, dy, {!ta, false});
    }
    return grads;
  }

  std::optional<Absorbed> absorb_epilogue(const ScalarProgram& p, int fused_input,
                                          std::span<const TensorSpec> in,
                                          std::span<const TensorSpec> p_in) const override {
    auto whole = join_epilogue(params.epilogue, p, fused_input, infer(in)[0], p_in);
    if (!whole || !in[0].device.is_cpu()) return std::nullopt;
    return Absorbed{std::make_shared<Matmul>(EpilogueParams{params.product, *whole}),
                    join_inputs(in.size(), p, fused_input)};
  }

  const EpilogueParams params;
};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulParams params) {
  return apply1(std::make_shared<Matmul>(EpilogueParams{params}), {a, b});
}

}  // namespace tessera
