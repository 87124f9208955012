// matmul through cuBLASLt. The library's matrices are column-major and ours row-major, so
//
//   y = op(a) op(b)   is computed as   y' = op(b)' op(a)'
//
// The operands change places and nothing is moved. The library's rows are our columns, so its bias,
// one value a row, is ours, one a column.
//
// The algorithm that computes the product without a bias also adds the bias if it can; else a
// kernel of our own adds it afterwards. So the bits are those of the two ops, as in eager mode.
#include <cstdint>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Blocks have a larger alignment, but a view may start at any element. cuBLASLt assumes the same
// alignment of a bias as of aligned matrices.
constexpr uint32_t kAligned = 64;

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kAligned == 0; }

// Owns a descriptor of the library, whose attributes `setter` sets.
template <class Handle, auto destroy, auto setter>
struct Owned {
  Handle handle = nullptr;
  const char* setter_name;
  explicit Owned(const char* name) : setter_name(name) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle != nullptr) (blas().*destroy)(handle);
  }
  template <class Value, class Attribute>
  void set(Attribute which, Value value) const {
    cuda_check((blas().*setter)(handle, which, &value, sizeof value), setter_name);
  }
};
struct Product : Owned<cublasLtMatmulDesc_t, &Blas::cublasLtMatmulDescDestroy,
                       &Blas::cublasLtMatmulDescSetAttribute> {
  Product() : Owned("cublasLtMatmulDescSetAttribute") {}
};
struct Layout : Owned<cublasLtMatrixLayout_t, &Blas::cublasLtMatrixLayoutDestroy,
                      &Blas::cublasLtMatrixLayoutSetAttribute> {
  Layout() : Owned("cublasLtMatrixLayoutSetAttribute") {}
};
struct Preference : Owned<cublasLtMatmulPreference_t, &Blas::cublasLtMatmulPreferenceDestroy,
                          &Blas::cublasLtMatmulPreferenceSetAttribute> {
  Preference() : Owned("cublasLtMatmulPreferenceSetAttribute") {}
};

cudaDataType_t library_type(DType type) {
  if (type == DType::bf16) return CUDA_R_16BF;
  if (type == DType::f16) return CUDA_R_16F;
  return type == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
}

// T: the type of sums. Both operands may have the same 16 bits, and the result these or float32.
template <class T>
class MatmulCudaKernel final : public Kernel {
  static constexpr bool kDouble = sizeof(T) == 8;

 public:
  MatmulCudaKernel(const MatmulParams& params, const ScalarProgram& bias, SpecView in,
                   const TensorSpec& out, size_t scratch, CudaContext& ctx)
      : m_(out.shape[-2]),
        n_(out.shape[-1]),
        k_(in[0].shape[params.transpose_a ? -2 : -1]),
        pairs_(out.shape.elements(0, out.shape.rank() - 2)),
        scratch_(scratch),
        half_(is_half(in[0].dtype)),
        compute_(compute_type(half_, ctx.target().gpu)) {
    if (in.size() > 2) {
      const TensorSpec read[] = {out, in[2]};
      add_bias_ = pointwise_cuda(bias, read, out.dtype);
    }
    if (pairs_ * m_ * n_ * k_ == 0) return;
    CudaDeviceGuard guard(ctx.index());
    make_product(product_, params);
    make_layout(b_, in[1]);
    make_layout(a_, in[0]);
    make_layout(y_, out);
    aligned_ = choose(ctx, kAligned);
    unaligned_ = choose(ctx, static_cast<uint32_t>(size_of(in[0].dtype)));
    if (!add_bias_ || in[2].dtype != out.dtype) return;
    make_product(with_bias_, params);
    with_bias_.set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    takes_bias_ = supports(ctx, aligned_, with_bias_);
  }

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    if (pairs_ * m_ * n_ == 0) return;
    CudaContext& gpu = as_cuda(ctx);
    CudaDeviceGuard guard(gpu.index());
    const void *a = in[0].data, *b = in[1].data;
    void* y = out[0].data;
    const bool aligned = is_aligned(a) && is_aligned(b) && is_aligned(y);
    if (k_ == 0) {
      gpu.fill(y, 0, out[0].spec.bytes());
    } else if (aligned && takes_bias_ && is_aligned(in[2].data)) {
      with_bias_.set<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, in[2].data);
      multiply(gpu, with_bias_, aligned_, a, b, y, scratch.data);
      return;
    } else {
      multiply(gpu, product_, aligned ? aligned_ : unaligned_, a, b, y, scratch.data);
    }
    if (!add_bias_) return;
    const Buffer read[] = {out[0], in[2]};
    add_bias_->run(ctx, read, out, {});
  }

 private:
  void multiply(CudaContext& gpu, const Product& product, const cublasLtMatmulAlgo_t& algorithm,
                const void* a, const void* b, void* y, void* scratch) const {
    const T one = 1, zero = 0;
    cuda_check(blas().cublasLtMatmul(gpu.blas(), product.handle, &one, b, b_.handle, a, a_.handle,
                                     &zero, y, y_.handle, y, y_.handle, &algorithm, scratch,
                                     scratch_, gpu.cuda_stream()),
               "cublasLtMatmul");
  }

  // Returns the compute type; float32 is rounded to TF32 only if settings.tf32 is set.
  static cublasComputeType_t compute_type(bool half, const GpuSettings& settings) {
    if constexpr (kDouble) return CUBLAS_COMPUTE_64F;
    return settings.tf32 && !half ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }

  void make_product(Product& product, const MatmulParams& params) const {
    cuda_check(
        blas().cublasLtMatmulDescCreate(&product.handle, compute_, library_type(dtype_of<T>)),
        "cublasLtMatmulDescCreate");
    const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    product.set<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSA, operation(params.transpose_b));
    product.set<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSB, operation(params.transpose_a));
  }

  // Makes the library's layout of a stored [pairs, rows, columns]; its rows are our columns.
  void make_layout(Layout& layout, const TensorSpec& stored) const {
    const int64_t rows = stored.shape[-2], columns = stored.shape[-1];
    cuda_check(blas().cublasLtMatrixLayoutCreate(&layout.handle, library_type(stored.dtype),
                                                 static_cast<uint64_t>(columns),
                                                 static_cast<uint64_t>(rows), columns),
               "cublasLtMatrixLayoutCreate");
    if (pairs_ == 1) return;
    layout.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(pairs_));
    layout.set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }

  // Returns the library's first proposal for these shapes: a heuristic, not a measurement. Excludes
  // split-K sums that add parts in the order in which these finish, which change from run to run,
  // and parts in 16 bits.
  cublasLtMatmulAlgo_t choose(CudaContext& ctx, uint32_t alignment) const {
    Preference preference;
    cuda_check(blas().cublasLtMatmulPreferenceCreate(&preference.handle),
               "cublasLtMatmulPreferenceCreate");
    preference.set<uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, scratch_);
    preference.set<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                             CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                 (half_ ? 0u : uint32_t{CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE}));
    for (auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      preference.set<uint32_t>(which, alignment);
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cuda_check(blas().cublasLtMatmulAlgoGetHeuristic(ctx.blas(), product_.handle, b_.handle,
                                                     a_.handle, y_.handle, y_.handle,
                                                     preference.handle, 1, &found, &count),
               "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0)
      throw DeviceError("matmul: cuBLASLt has no algorithm for these shapes on this GPU");
    return found.algo;
  }

  // Returns true if `algorithm` also computes `product` within the scratch.
  bool supports(CudaContext& ctx, const cublasLtMatmulAlgo_t& algorithm,
                const Product& product) const {
    // The check requires an address; this one is aligned, and nothing is read there.
    product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(uintptr_t{4096}));
    cublasLtMatmulHeuristicResult_t found{};
    const cublasStatus_t code = blas().cublasLtMatmulAlgoCheck(
        ctx.blas(), product.handle, b_.handle, a_.handle, y_.handle, y_.handle, &algorithm, &found);
    return code == CUBLAS_STATUS_SUCCESS && found.workspaceSize <= scratch_;
  }

  const int64_t m_, n_, k_, pairs_;
  const size_t scratch_;
  const bool half_;
  const cublasComputeType_t compute_;
  std::unique_ptr<Kernel> add_bias_;  // null without a bias
  Product product_, with_bias_;
  Layout a_, b_, y_;
  cublasLtMatmulAlgo_t aligned_{}, unaligned_{};
  bool takes_bias_ = false;  // aligned_ adds the bias
};

}  // namespace

std::unique_ptr<Kernel> matmul_cuda(const MatmulParams& params, const ScalarProgram& bias,
                                    SpecView in, const TensorSpec& out, size_t scratch,
                                    Context& ctx) {
  CudaContext& gpu = as_cuda(ctx);
  if (out.dtype == DType::f64)
    return std::make_unique<MatmulCudaKernel<double>>(params, bias, in, out, scratch, gpu);
  return std::make_unique<MatmulCudaKernel<float>>(params, bias, in, out, scratch, gpu);
}

}  // namespace tessera
