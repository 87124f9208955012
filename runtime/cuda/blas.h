// cuBLASLt, loaded when the first GPU is used: a library of half a GiB has no part in programs that
// plan, print or run on the CPU, and they start where it is not installed. For files of the GPU
// back end only: it includes the vendor's header.
#pragma once

#include <string>

#include <cublasLt.h>

namespace tessera {

// The functions that are called, by the vendor's names.
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
  std::string file;    // that it was loaded from
  size_t version = 0;  // as CUBLAS_VERSION is written: 130100
};

// Loads it at the first call: from where the loader looks, else from the folder it was in when this
// was built. Throws DeviceError where there is none, naming that folder; VersionMismatch, naming
// the file, where it lacks a function or is of another major version than this was built with.
// Thread-safe.
const Blas& blas();
// Whether a call of blas() has loaded it.
const Blas* loaded_blas();

}  // namespace tessera
