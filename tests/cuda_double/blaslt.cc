// The functions of cuBLASLt that the engine calls. Products are sums in double, in index order; the
// workspace is filled with NaN. The only algorithm needs all the alignment and workspace that it
// may have. Its only epilogue is the bias, for matrices of several rows: like the vendor's, an
// algorithm need not support every epilogue.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "calls.h"
#include "memory.h"
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct cublasLtContext {
  int device;
};

namespace {

using namespace cuda_double;

constexpr double kOperationsPerSecond = 50e12;
constexpr uint64_t kMaxWorkspace = 1 << 16;
constexpr uint64_t kWorkspaceAlignment = 256, kBiasAlignment = 16;

// The struct that a handle points to; the vendor's types are blocks of words.
struct Product {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t aligned_a = 256, aligned_b = 256, aligned_c = 256, aligned_d = 256;
};

// Stored in the words of a cublasLtMatmulAlgo_t.
struct Algo {
  uint64_t workspace;
  uint32_t aligned_a, aligned_b, aligned_c, aligned_d;
};
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t));

struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading = 0;
  int32_t count = 1;   // matrices
  int64_t offset = 0;  // elements from one matrix to the next
};

template <class Mine, class Handle>
Mine& mine(Handle handle) {
  return *reinterpret_cast<Mine*>(handle);
}

struct Matmul {
  Product product;
  Layout a, b, d;
};

Algo algo_of(const cublasLtMatmulAlgo_t* algo) {
  Algo found;
  std::memcpy(&found, algo, sizeof found);
  return found;
}

template <class T>
cublasStatus_t set(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// Returns `value` as tensor cores read a float: with ten bits of mantissa.
double factor(const Product& product, double value) {
  if (product.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

size_t size_of(cudaDataType_t type) {
  if (type == CUDA_R_16F || type == CUDA_R_16BF) return 2;
  return type == CUDA_R_64F ? sizeof(double) : sizeof(float);
}

double element(const void* of, cudaDataType_t type, int64_t i) {
  if (type == CUDA_R_16F)
    return static_cast<double>(__half2float(static_cast<const __half*>(of)[i]));
  if (type == CUDA_R_16BF)
    return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(of)[i]));
  if (type == CUDA_R_64F) return static_cast<const double*>(of)[i];
  return static_cast<double>(static_cast<const float*>(of)[i]);
}

template <class T>
void put(void* to, cudaDataType_t type, int64_t i, T value) {
  if (type == CUDA_R_16F)
    static_cast<__half*>(to)[i] = __float2half(static_cast<float>(value));
  else if (type == CUDA_R_16BF)
    static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(static_cast<float>(value));
  else
    static_cast<T*>(to)[i] = value;
}

template <class T>
void multiply(const Matmul& how, T alpha, T beta, const void* a, const void* b, const void* c,
              void* d) {
  const auto at = [](const Layout& layout, uint64_t row, uint64_t column) {
    return static_cast<int64_t>(column) * layout.leading + static_cast<int64_t>(row);
  };
  const bool ta = how.product.transpose_a != CUBLAS_OP_N,
             tb = how.product.transpose_b != CUBLAS_OP_N;
  const uint64_t inner = ta ? how.a.rows : how.a.columns;
  for (uint64_t j = 0; j < how.d.columns; ++j)
    for (uint64_t i = 0; i < how.d.rows; ++i) {
      double sum = 0;
      for (uint64_t l = 0; l < inner; ++l)
        sum += factor(how.product, element(a, how.a.type, ta ? at(how.a, l, i) : at(how.a, i, l))) *
               factor(how.product, element(b, how.b.type, tb ? at(how.b, j, l) : at(how.b, l, j)));
      const int64_t where = at(how.d, i, j);
      T value = static_cast<T>(static_cast<double>(alpha) * sum);
      if (beta != T(0)) value += beta * static_cast<T>(element(c, how.d.type, where));
      if (how.product.epilogue == CUBLASLT_EPILOGUE_BIAS)
        value += static_cast<T>(element(how.product.bias, how.d.type, static_cast<int64_t>(i)));
      put(d, how.d.type, where, value);
    }
}

// Factors of 16 bits may have a result of these or of float32.
bool types_fit(const Matmul& how) {
  const bool half = how.a.type == CUDA_R_16F || how.a.type == CUDA_R_16BF;
  if (!half)
    return how.a.type == how.product.scale && how.b.type == how.a.type && how.d.type == how.a.type;
  return how.product.compute == CUBLAS_COMPUTE_32F && how.b.type == how.a.type &&
         (how.d.type == how.a.type || how.d.type == CUDA_R_32F);
}

bool fits(const Matmul& how) {
  const bool ta = how.product.transpose_a != CUBLAS_OP_N,
             tb = how.product.transpose_b != CUBLAS_OP_N;
  return (ta ? how.a.columns : how.a.rows) == how.d.rows &&
         (tb ? how.b.rows : how.b.columns) == how.d.columns &&
         (ta ? how.a.rows : how.a.columns) == (tb ? how.b.columns : how.b.rows) &&
         how.a.count == how.d.count && how.b.count == how.d.count && types_fit(how);
}

// Returns the fault of a product, whatever its addresses are.
cublasStatus_t fault_of(const Matmul& how) {
  if (!fits(how)) return CUBLAS_STATUS_INVALID_VALUE;
  if (how.product.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  if (how.product.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return how.d.rows > 1 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// Returns true if `bytes` at `data` are aligned and inside one block of the device.
bool stands(const void* data, size_t bytes, uint64_t alignment) {
  const Region region = region_of(data);
  const auto* begin = static_cast<const char*>(data);
  return region.place == Place::device && reinterpret_cast<uintptr_t>(data) % alignment == 0 &&
         begin + bytes <= region.begin + region.bytes;
}

size_t bytes_of(const Layout& layout) {
  const auto last = static_cast<size_t>((layout.count - 1) * layout.offset +
                                        static_cast<int64_t>(layout.columns - 1) * layout.leading) +
                    layout.rows;
  return last * size_of(layout.type);
}

template <class T>
cublasStatus_t enqueue(const Matmul& how, const void* alpha, const void* beta, const void* a,
                       const void* b, const void* c, void* d, void* workspace, size_t bytes,
                       cudaStream_t stream) {
  const T by = *static_cast<const T*>(alpha), keep = *static_cast<const T*>(beta);
  Operation operation;
  operation.name = "matmul";
  operation.engine = Engine::compute;
  operation.seconds =
      2.0 * how.d.count * static_cast<double>(how.d.rows * how.d.columns) *
      static_cast<double>(how.product.transpose_a == CUBLAS_OP_N ? how.a.columns : how.a.rows) /
      kOperationsPerSecond;
  operation.run = [=] {
    if (bytes > 0) std::memset(workspace, 0xff, bytes);
    const auto nth = [](auto* matrices, int32_t i, const Layout& layout) {
      using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(matrices)>>,
                                      const char, char>;
      return static_cast<Byte*>(matrices) + i * layout.offset * int64_t(size_of(layout.type));
    };
    for (int32_t i = 0; i < how.d.count; ++i)
      multiply<T>(how, by, keep, nth(a, i, how.a), nth(b, i, how.b), nth(c, i, how.d),
                  nth(d, i, how.d));
  };
  const cudaError_t code =
      call("cublasLtMatmul", [&](Machine&) { return issue(stream, std::move(operation)); });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t code) {
  switch (code) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t code) { return cublasLtGetStatusName(code); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new cublasLtContext{current_device()});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete &mine<cublasLtContext>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  const bool single = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (!(single && scale == CUDA_R_32F) && !(compute == CUBLAS_COMPUTE_64F && scale == CUDA_R_64F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{.compute = compute, .scale = scale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete &mine<Product>(product);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
  Product& of = mine<Product>(product);
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(of.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(of.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(of.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: {
      uint32_t epilogue = 0;
      if (const cublasStatus_t code = set(epilogue, value, bytes); code != CUBLAS_STATUS_SUCCESS)
        return code;
      if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
      of.epilogue = epilogue;
      return CUBLAS_STATUS_SUCCESS;
    }
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &mine<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t bytes) {
  Layout& of = mine<Layout>(layout);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(of.count, value, bytes);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return set(of.offset, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &mine<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, size_t bytes) {
  Preference& of = mine<Preference>(preference);
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(of.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(of.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(of.aligned_a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(of.aligned_b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(of.aligned_c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(of.aligned_d, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  const Matmul how{mine<Product>(product), mine<Layout>(a), mine<Layout>(b), mine<Layout>(d)};
  const Preference& preferred = mine<Preference>(preference);
  if (!fits(how) || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  if (fault_of(how) != CUBLAS_STATUS_SUCCESS) return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = {};
  const Algo algo{std::min(preferred.workspace, kMaxWorkspace), preferred.aligned_a,
                  preferred.aligned_b, preferred.aligned_c, preferred.aligned_d};
  std::memcpy(&found->algo, &algo, sizeof algo);
  found->workspaceSize = algo.workspace;
  found->state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Matmul how{mine<Product>(product), mine<Layout>(a), mine<Layout>(b), mine<Layout>(d)};
  if (algo == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = algo_of(algo).workspace;
  return result->state = fault_of(how);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  const Matmul how{mine<Product>(product), mine<Layout>(a), mine<Layout>(b), mine<Layout>(d)};
  if (const cublasStatus_t fault = fault_of(how); fault != CUBLAS_STATUS_SUCCESS) return fault;
  if (chosen == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Algo algo = algo_of(chosen);
  const bool has_bias = how.product.epilogue == CUBLASLT_EPILOGUE_BIAS;
  const size_t of_bias = bytes_of({.type = how.d.type, .rows = how.d.rows, .columns = 1});
  const bool ready =
      stands(A, bytes_of(how.a), algo.aligned_a) && stands(B, bytes_of(how.b), algo.aligned_b) &&
      stands(C, bytes_of(how.d), algo.aligned_c) && stands(D, bytes_of(how.d), algo.aligned_d) &&
      bytes >= algo.workspace &&
      (algo.workspace == 0 || stands(workspace, algo.workspace, kWorkspaceAlignment)) &&
      (!has_bias || stands(how.product.bias, of_bias, kBiasAlignment));
  if (!ready) return CUBLAS_STATUS_INVALID_VALUE;
  if (how.product.scale == CUDA_R_64F)
    return enqueue<double>(how, alpha, beta, A, B, C, D, workspace, algo.workspace, stream);
  return enqueue<float>(how, alpha, beta, A, B, C, D, workspace, algo.workspace, stream);
}
}
