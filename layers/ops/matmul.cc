#include "tessera/layers/ops/matmul.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/prepare.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/epilogue.h"
#include "tessera/layers/shared/for_rows.h"
#include "tessera/layers/shared/gemm_cpu.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

namespace {

// Returns the sizes, unchecked; infer() checks that they fit.
GemmShape gemm_shape(const MatmulParams& params, const TensorSpec& a, const TensorSpec& b) {
  return {.m = a.shape[params.transpose_a ? -1 : -2],
          .n = b.shape[params.transpose_b ? -2 : -1],
          .k = a.shape[params.transpose_a ? -2 : -1],
          .transpose_a = params.transpose_a,
          .transpose_b = params.transpose_b};
}

// Returns the workspace for cuBLASLt: the size that NVIDIA recommends for the GPU's generation, but
// no more than a product of this size can use for at most kMaxParts parts of its sums.
size_t cuda_scratch(const GemmShape& shape, const TensorSpec& out, const Target& target) {
  constexpr size_t kMiB = size_t{1} << 20, kMaxParts = 64;
  if (out.bytes() == 0 || shape.k == 0) return 0;
  const size_t recommended =
      target.properties != nullptr && target.properties->major >= 9 ? 32 * kMiB : 4 * kMiB;
  const size_t useful = std::min(out.bytes(), recommended / kMaxParts) * kMaxParts;
  return std::min(std::max(useful, kMiB), target.gpu.workspace);
}

// Returns true if `p` only adds one value for each column to the product, its input `product`.
bool is_bias(const ScalarProgram& p, int product, const TensorSpec& out, SpecView p_in) {
  if (p.inputs != 2 || p.code.size() != 1) return false;
  const Instruction& only = p.code[0];
  Broadcast read;
  return only.op == ScalarOp::add && only.a != only.b &&
         broadcast_of(p_in[static_cast<size_t>(1 - product)].shape, out.shape, &read) &&
         read.repeat == 1 && read.period == out.shape.back();
}

// Inputs: a, b, then the extra inputs of the epilogue.
struct EpilogueParams {
  MatmulParams product;
  ScalarProgram epilogue = plain_epilogue(DType::f32);
  bool operator==(const EpilogueParams&) const = default;
};

// Returns whether gemm() multiplies inputs of 16 bits as they are.
bool multiplies_pairs(DType dtype) { return has_native_kernels() && dtype == DType::bf16; }

// The parts of scratch that precede the product's own: float32 copies of inputs of 16 bits that are
// not multiplied as they are, and sums that the epilogue rounds to 16 bits.
struct MatmulScratch {
  MatmulScratch(void* base, const TensorSpec& of_a, const TensorSpec& of_b, const TensorSpec& out,
                bool as_they_are)
      : layout(base) {
    if (is_half(of_a.dtype) && !as_they_are) {
      a = layout.take<float>(of_a.shape.elements());
      b = layout.take<float>(of_b.shape.elements());
    }
    if (is_half(of_a.dtype) && is_half(out.dtype)) sums = layout.take<float>(out.shape.elements());
  }

  ScratchLayout layout;
  float *a = nullptr, *b = nullptr, *sums = nullptr;
};

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const GemmShape& shape, PointwisePlan epilogue, bool eigen, bool as_they_are)
      : shape_(shape), epilogue_(std::move(epilogue)), eigen_(eigen), as_they_are_(as_they_are) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    const MatmulScratch parts(scratch.data, in[0].spec, in[1].spec, out[0].spec, as_they_are_);
    const Buffer a = converted(ctx, in[0], parts.a), b = converted(ctx, in[1], parts.b);
    Buffer y = out[0];
    if (parts.sums != nullptr) y = {parts.sums, computed(out[0].spec)};
    ThreadPool& pool = static_cast<CpuContext&>(ctx).pool();
    visit_types(ProductTypes(), a.spec.dtype, [&]<class T>(T) {
      multiply(pool, a.as<T>(), b.as<T>(), y.as<Computed<T>>(), y.spec.shape, parts.layout.rest());
    });
    if (!epilogue_.is_identity()) run_epilogue(pool, in, y, out[0]);
  }

 private:
  static Buffer converted(Context& ctx, const Buffer& buffer, float* copy) {
    if (copy == nullptr) return buffer;
    const Buffer other{copy, computed(buffer.spec)};
    cast_elements(ctx, buffer, other);
    return other;
  }

  template <class T>
  void multiply(ThreadPool& pool, const T* a, const T* b, Computed<T>* y, const Shape& pairs,
                void* scratch) const {
    for (int64_t left = pairs.elements(0, pairs.rank() - 2); left > 0; --left) {
      if constexpr (kNativeKernels)
        if (!eigen_) gemm<T>(pool, shape_, a, b, y, scratch);
      if constexpr (!is_half(dtype_of<T>))
        if (eigen_) eigen_gemm<T>(pool, shape_, a, b, y, scratch);
      a += shape_.m * shape_.k, b += shape_.k * shape_.n, y += shape_.m * shape_.n;
    }
  }

  // Applies the epilogue. The product of a linear layer is small, so it is still in the cache.
  void run_epilogue(ThreadPool& pool, Buffers in, const Buffer& sums, const Buffer& out) const {
    constexpr int64_t kBlock = 4096;
    const EpilogueRun epilogue(epilogue_, in.subspan(2), sums, out);
    for_row_ranges(pool, out.elements(), 1, kBlock,
                   [&](int64_t first, int64_t end) { epilogue.apply(first, end - first); });
  }

  const GemmShape shape_;
  const PointwisePlan epilogue_;
  const bool eigen_, as_they_are_;
};

class Matmul final : public OpBase<Matmul, EpilogueParams>, public HasEpilogue {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "matmul"; }
  std::vector<OpAttribute> attributes() const override {
    return {{"transpose_a", {params.product.transpose_a ? 1.0 : 0.0}},
            {"transpose_b", {params.product.transpose_b ? 1.0 : 0.0}}};
  }

  Specs infer(SpecView in) const override {
    InputCheck check("matmul", in.first(std::min<size_t>(in.size(), 2)), {"a", "b"});
    check.floats();
    const int rank = in[0].shape.rank();
    check.rank(0, std::max(rank, 2));
    check.rank(1, std::max(rank, 2));
    Shape y = in[0].shape;
    for (int i = 0; i < rank - 2; ++i)
      if (in[1].shape[i] != y[i]) check.fail(fmt::format("axis {} of a and b must be equal", i));
    const bool ta = params.product.transpose_a, tb = params.product.transpose_b;
    const GemmShape shape = gemm_shape(params.product, in[0], in[1]);
    if (const int64_t rows = in[1].shape[tb ? -1 : -2]; rows != shape.k) {
      check.fail(fmt::format("a{} has {} columns, but b{} has {} rows", ta ? " transposed" : "",
                             shape.k, tb ? " transposed" : "", rows));
    }
    y[-2] = shape.m;
    y[-1] = shape.n;
    return {{result_type(params.epilogue, compute_type(in[0].dtype)), y, {}}};
  }

  bool takes_half(DeviceKind, SpecView in) const override {
    return is_half(in[0].dtype) && in[0].dtype == in[1].dtype;
  }

  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    const GemmShape shape = gemm_shape(params.product, in[0], in[1]);
    if (!target.device.is_cpu()) return {{"cublaslt", cuda_scratch(shape, infer(in)[0], target)}};
    const DType dtype = in[0].dtype, wide = compute_type(dtype);
    const TensorSpec out = infer(in)[0];
    std::vector<Algorithm> all;
    if constexpr (kNativeKernels)
      if (has_native_kernels()) {
        const bool pairs = multiplies_pairs(dtype);
        all.push_back({"native", MatmulScratch(nullptr, in[0], in[1], out, pairs).layout.size() +
                                     gemm_scratch(shape, pairs ? dtype : wide, target.threads)});
      }
    all.push_back({"eigen", MatmulScratch(nullptr, in[0], in[1], out, false).layout.size() +
                                eigen_gemm_scratch(shape, wide, target.threads)});
    return all;
  }

  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    // The conversion to 16 bits rounds a result that has no other epilogue.
    const ScalarProgram epilogue =
        is_plain(params.epilogue) ? plain_epilogue(DType::f32) : params.epilogue;
    const TensorSpec y = infer(in)[0], out = computed(y);
    const DeviceKind kind = ctx.device().kind;
    const DType stored = takes_half(kind, in) ? y.dtype : out.dtype;
    if constexpr (kCuda)
      if (kind != DeviceKind::cpu)
        return matmul_cuda(params.product, epilogue, in, {stored, y.shape, y.device},
                           chosen.scratch_bytes, ctx);
    const bool eigen = chosen.name == "eigen";
    return std::make_unique<MatmulKernel>(
        gemm_shape(params.product, in[0], in[1]),
        epilogue_plan(is_half(stored) ? params.epilogue : epilogue, in.subspan(2), out, stored),
        eigen, !eigen && multiplies_pairs(in[0].dtype));
  }

  const ScalarProgram& epilogue() const override { return params.epilogue; }
  bool differentiable() const override { return is_plain(params.epilogue); }
  Saved saved() const override { return {.inputs = 0b11}; }

  Tensors grad(const GradArgs& args) const override {
    const bool ta = params.product.transpose_a, tb = params.product.transpose_b;
    const Tensor &a = args.inputs[0], &b = args.inputs[1];
    // A float32 result of 16 bits (the logits) has its gradient rounded, so that it is multiplied
    // as the inputs are.
    const bool half = is_half(a.dtype()) && a.dtype() == b.dtype();
    const Tensor dy = half ? cast(args.grad_outputs[0], a.dtype()) : args.grad_outputs[0];
    // Gradients of 16 bits are float32 until it is known whose they are.
    const auto product = [](const Tensor& x, const Tensor& y, MatmulParams transposed) {
      return apply1(std::make_shared<Matmul>(EpilogueParams{transposed}), {x, y});
    };
    Tensors grads(2);
    if (args.needs(0)) grads[0] = ta ? product(b, dy, {tb, true}) : product(dy, b, {false, !tb});
    if (args.needs(1)) grads[1] = tb ? product(dy, a, {true, ta}) : product(a, dy, {!ta, false});
    return grads;
  }

  std::optional<FusedOp> fuse_epilogue(const ScalarProgram& p, int fused_input, SpecView in,
                                       SpecView p_in) const override {
    const TensorSpec out = infer(in)[0];
    auto whole = join_epilogue(params.epilogue, p, fused_input, out, p_in);
    if (!whole) return std::nullopt;
    const bool alone = params.epilogue.code.empty();
    if (!in[0].device.is_cpu() && !(alone && is_bias(p, fused_input, out, p_in)))
      return std::nullopt;
    return FusedOp{std::make_shared<Matmul>(EpilogueParams{params.product, *whole}),
                   join_inputs(in.size(), p, fused_input)};
  }

  Cost cost(SpecView in) const override {
    const TensorSpec out = infer(in)[0];
    const int64_t k = gemm_shape(params.product, in[0], in[1]).k;
    return cost_with(in, 2 * k * out.shape.elements() + epilogue_flops(params.epilogue, out));
  }
};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulParams params) {
  const auto product = [&](const Tensor& x, const Tensor& y) {
    const DType type = promoted(x.dtype(), y.dtype());
    const MatmulParams transposed{params.transpose_a, params.transpose_b};
    return apply1(
        std::make_shared<Matmul>(EpilogueParams{
            transposed, plain_epilogue(params.float32_result ? compute_type(type) : type)}),
        {x, y});
  };
  const Shape &of_a = a.shape(), &of_b = b.shape();
  const bool row = of_a.rank() == 1, column = of_b.rank() == 1;
  if ((row || column) && of_a.rank() > 0 && of_b.rank() > 0) {
    const Tensor y =
        matmul(row ? reshape(a, {1, of_a[0]}) : a, column ? reshape(b, {of_b[0], 1}) : b,
               {params.transpose_a && !row, params.transpose_b && !column, params.float32_result});
    std::vector<int64_t> sizes(y.shape().begin(), y.shape().end());
    if (column) sizes.pop_back();
    if (row) sizes.erase(sizes.end() - (column ? 1 : 2));
    return reshape(y, Shape(sizes));
  }
  if (of_a.rank() < 2 || of_b.rank() < 2 || (of_a.rank() == 2 && of_b.rank() == 2))
    return product(a, b);
  if (of_b.rank() == 2 && !params.transpose_a) {  // a is one tall matrix
    const Tensor tall =
        product(reshape(a, Shape{of_a.elements(0, of_a.rank() - 1), of_a.back()}), b);
    Shape y = of_a;
    y[-1] = tall.shape()[1];
    return reshape(tall, y);
  }
  const auto leading = [](const Shape& shape) {
    return Shape(shape.sizes().first(static_cast<size_t>(shape.rank() - 2)));
  };
  const Shape pairs = broadcast(leading(of_a), leading(of_b), "matmul");
  const auto expanded = [&](const Tensor& x) {
    std::vector<int64_t> sizes(pairs.begin(), pairs.end());
    sizes.push_back(x.shape()[-2]);
    sizes.push_back(x.shape()[-1]);
    return expand(x, Shape(sizes));
  };
  return product(expanded(a), expanded(b));
}

}  // namespace tessera
