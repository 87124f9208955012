// The calls of cuBLASLt that the product makes. Products are sums in double, in the order of the
// index; the workspace comes back as NaN.
#include <cstdint>
#include <cstring>
#include <mutex>

#include "calls.h"
#include "memory.h"
#include <cublasLt.h>

struct cublasLtContext {
  int device;
};

namespace {

using namespace cuda_double;

constexpr double kOperationsPerSecond = 50e12;

// What a caller's handle points to; the vendor's types are blocks of words, these are ours.
struct Product {
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cudaDataType_t scale;
};

struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t count = 1;   // of matrices
  int64_t offset = 0;  // elements from one to the next
};

template <class Mine, class Handle>
Mine& mine(Handle handle) {
  return *reinterpret_cast<Mine*>(handle);
}

struct Matmul {
  Product product;
  Layout a, b, d;
};

template <class T>
void multiply(const Matmul& how, T alpha, T beta, const void* left, const void* right,
              const void* added, void* into) {
  const auto *a = static_cast<const T*>(left), *b = static_cast<const T*>(right),
             *c = static_cast<const T*>(added);
  auto* d = static_cast<T*>(into);
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
        sum += static_cast<double>(a[ta ? at(how.a, l, i) : at(how.a, i, l)]) *
               static_cast<double>(b[tb ? at(how.b, j, l) : at(how.b, l, j)]);
      const int64_t where = at(how.d, i, j);
      const T scaled = static_cast<T>(static_cast<double>(alpha) * sum);
      d[where] = beta == T(0) ? scaled : scaled + beta * c[where];
    }
}

bool fits(const Matmul& how) {
  const bool ta = how.product.transpose_a != CUBLAS_OP_N,
             tb = how.product.transpose_b != CUBLAS_OP_N;
  return (ta ? how.a.columns : how.a.rows) == how.d.rows &&
         (tb ? how.b.rows : how.b.columns) == how.d.columns &&
         (ta ? how.a.rows : how.a.columns) == (tb ? how.b.columns : how.b.rows) &&
         how.a.count == how.d.count && how.b.count == how.d.count;
}

template <class T>
cublasStatus_t enqueue(const Matmul& how, const void* alpha, const void* beta, const void* a,
                       const void* b, const void* c, void* d, void* workspace, size_t bytes,
                       cudaStream_t stream) {
  for (const void* data : {a, b, static_cast<const void*>(d)})
    if (region_of(data).place != Place::device) return CUBLAS_STATUS_INVALID_VALUE;
  const T by = *static_cast<const T*>(alpha), keep = *static_cast<const T*>(beta);
  Operation operation;
  operation.name = "matmul";
  operation.engine = Engine::compute;
  operation.seconds =
      2.0 * how.d.count * static_cast<double>(how.d.rows * how.d.columns) *
      static_cast<double>(how.product.transpose_a == CUBLAS_OP_N ? how.a.columns : how.a.rows) /
      kOperationsPerSecond;
  operation.run = [=] {
    if (workspace != nullptr) std::memset(workspace, 0xff, bytes);
    for (int32_t i = 0; i < how.d.count; ++i)
      multiply<T>(how, by, keep, static_cast<const T*>(a) + i * how.a.offset,
                  static_cast<const T*>(b) + i * how.b.offset,
                  static_cast<const T*>(c) + i * how.d.offset,
                  static_cast<T*>(d) + i * how.d.offset);
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

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t,
                                        cudaDataType_t scale) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{CUBLAS_OP_N, CUBLAS_OP_N, scale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete &mine<Product>(product);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
  int32_t* to = nullptr;
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) to = &mine<Product>(product).transpose_a;
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) to = &mine<Product>(product).transpose_b;
  if (to == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (bytes != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
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
  const auto set = [&](auto& to) {
    if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(mine<Layout>(layout).count);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return set(mine<Layout>(layout).offset);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &mine<int>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;  // there is one way, which needs none of what is preferred
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  const Matmul how{mine<Product>(product), mine<Layout>(a), mine<Layout>(b), mine<Layout>(d)};
  if (!fits(how)) return CUBLAS_STATUS_INVALID_VALUE;
  *found = {};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t*, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  const Matmul how{mine<Product>(product), mine<Layout>(a), mine<Layout>(b), mine<Layout>(d)};
  if (!fits(how)) return CUBLAS_STATUS_INVALID_VALUE;
  if (how.d.type == CUDA_R_64F)
    return enqueue<double>(how, alpha, beta, A, B, C, D, workspace, bytes, stream);
  if (how.d.type == CUDA_R_32F)
    return enqueue<float>(how, alpha, beta, A, B, C, D, workspace, bytes, stream);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
}
