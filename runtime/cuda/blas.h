// cuBLASLt, loaded when the first GPU is used. Programs that plan, print or run on the CPU do not
// load its half GiB, and also start if it is not installed. For files of the GPU back end only:
// includes the vendor's header.
#pragma once

#include <string>

#include <cublasLt.h>

#include "tessera/runtime/cuda/vendor_library.h"

namespace tessera {

// The functions used, by the vendor's names.
#define TESSERA_BLAS_FUNCTIONS(X)         \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusName)                \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)

struct Blas {
#define TESSERA_BLAS_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_BLAS_FUNCTIONS(TESSERA_BLAS_MEMBER)
#undef TESSERA_BLAS_MEMBER
  std::string file;    // path of the library
  size_t version = 0;  // like CUBLAS_VERSION: 130100
};

// Returns the functions; the first call loads the library: from the loader's search path, else from
// its folder at build time. Throws DeviceError, naming that folder, if there is none;
// VersionMismatch, naming the file, if it lacks a function or has another major version than at
// build time. Thread-safe.
const Blas& blas();
const VendorLibrary& blas_library();

}  // namespace tessera
