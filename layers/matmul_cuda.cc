// matmul through cuBLASLt. The library reads matrices column by column, in which our row-major
// y = op(a) op(b) is y' = op(b)' op(a)': the operands change places and nothing is moved.
#include <cstdint>

#include "tessera/layers/matmul.h"
#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Blocks start at multiples of kMemoryAlignment, but a view may start at any element.
constexpr uint32_t kAligned = 64;

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kAligned == 0; }

// A descriptor of the library, destroyed with its owner.
template <class Handle, auto destroy>
struct Owned {
  Handle handle = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle != nullptr) (blas().*destroy)(handle);
  }
};
using Product = Owned<cublasLtMatmulDesc_t, &Blas::cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, &Blas::cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &Blas::cublasLtMatmulPreferenceDestroy>;

template <class T>
class MatmulCudaKernel final : public Kernel {
  static constexpr bool kDouble = sizeof(T) == 8;
  static constexpr cudaDataType_t kType = kDouble ? CUDA_R_64F : CUDA_R_32F;
  // Plain float32: never rounded to the tensor cores' shorter format.
  static constexpr cublasComputeType_t kCompute = kDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;

 public:
  MatmulCudaKernel(const MatmulParams& params, const Shape& a, const Shape& b, CudaContext& where)
      : m_(a[params.transpose_a ? -1 : -2]),
        n_(b[params.transpose_b ? -2 : -1]),
        k_(a[params.transpose_a ? -2 : -1]),
        pairs_(a.elements(0, a.rank() - 2)) {
    if (pairs_ * m_ * n_ * k_ == 0) return;
    CudaDeviceGuard guard(where.index());
    cuda_check(blas().cublasLtMatmulDescCreate(&product_.handle, kCompute, kType),
               "cublasLtMatmulDescCreate");
    set_transpose(CUBLASLT_MATMUL_DESC_TRANSA, params.transpose_b);
    set_transpose(CUBLASLT_MATMUL_DESC_TRANSB, params.transpose_a);
    make_layout(b_, b[-2], b[-1]);
    make_layout(a_, a[-2], a[-1]);
    make_layout(y_, m_, n_);
    aligned_ = choose(where, kAligned);
    unaligned_ = choose(where, sizeof(T));
  }

  void run(Context& where, Buffers in, Buffers out, Buffer scratch) override {
    if (pairs_ * m_ * n_ == 0) return;
    CudaContext& gpu = as_cuda(where);
    CudaDeviceGuard guard(gpu.index());
    const void *a = in[0].data, *b = in[1].data;
    void* y = out[0].data;
    if (k_ == 0) {
      size_t bytes = static_cast<size_t>(pairs_ * m_ * n_) * sizeof(T);
      cuda_check(cudaMemsetAsync(y, 0, bytes, gpu.cuda_stream()), "cudaMemsetAsync");
      return;
    }
    const T one = 1, zero = 0;
    const bool aligned = is_aligned(a) && is_aligned(b) && is_aligned(y);
    cuda_check(
        blas().cublasLtMatmul(gpu.blas(), product_.handle, &one, b, b_.handle, a, a_.handle, &zero,
                              y, y_.handle, y, y_.handle, aligned ? &aligned_ : &unaligned_,
                              scratch.data, kMatmulCudaScratch, gpu.cuda_stream()),
        "cublasLtMatmul");
  }

 private:
  void set_transpose(cublasLtMatmulDescAttributes_t which, bool transpose) {
    const cublasOperation_t operation = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    cuda_check(
        blas().cublasLtMatmulDescSetAttribute(product_.handle, which, &operation, sizeof operation),
        "cublasLtMatmulDescSetAttribute");
  }

  // As the library sees a stored [pairs, rows, columns]: its rows are our columns.
  void make_layout(Layout& layout, int64_t rows, int64_t columns) const {
    cuda_check(
        blas().cublasLtMatrixLayoutCreate(&layout.handle, kType, static_cast<uint64_t>(columns),
                                          static_cast<uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
    if (pairs_ == 1) return;
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(pairs_));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }

  template <class Value>
  static void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t which, Value value) {
    cuda_check(blas().cublasLtMatrixLayoutSetAttribute(layout.handle, which, &value, sizeof value),
               "cublasLtMatrixLayoutSetAttribute");
  }

  template <class Value>
  static void prefer(const Preference& preference, cublasLtMatmulPreferenceAttributes_t which,
                     Value value) {
    cuda_check(
        blas().cublasLtMatmulPreferenceSetAttribute(preference.handle, which, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  }

  // The library's first proposal for these shapes: a rule, not a measurement. Sums split over
  // blocks that are added in whatever order they finish are left out: they change from run to run.
  cublasLtMatmulAlgo_t choose(CudaContext& where, uint32_t alignment) const {
    Preference preference;
    cuda_check(blas().cublasLtMatmulPreferenceCreate(&preference.handle),
               "cublasLtMatmulPreferenceCreate");
    prefer<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMatmulCudaScratch);
    prefer<uint32_t>(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    for (auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer<uint32_t>(preference, which, alignment);
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cuda_check(blas().cublasLtMatmulAlgoGetHeuristic(where.blas(), product_.handle, b_.handle,
                                                     a_.handle, y_.handle, y_.handle,
                                                     preference.handle, 1, &found, &count),
               "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) throw DeviceError("matmul: cuBLASLt knows no way to compute this on this GPU");
    return found.algo;
  }

  int64_t m_, n_, k_, pairs_;
  Product product_;
  Layout a_, b_, y_;
  cublasLtMatmulAlgo_t aligned_{}, unaligned_{};
};

}  // namespace

std::unique_ptr<Kernel> matmul_cuda(const MatmulParams& params, std::span<const TensorSpec> in,
                                    Context& where) {
  CudaContext& gpu = as_cuda(where);
  if (in[0].dtype == DType::f64)
    return std::make_unique<MatmulCudaKernel<double>>(params, in[0].shape, in[1].shape, gpu);
  return std::make_unique<MatmulCudaKernel<float>>(params, in[0].shape, in[1].shape, gpu);
}

}  // namespace tessera
