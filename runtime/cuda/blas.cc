#include "tessera/runtime/cuda/blas.h"

#include <fmt/format.h>

namespace tessera {

const VendorLibrary& blas_library() {
  static const VendorLibrary about{
      "cuBLASLt", fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), TESSERA_CUDA_FOLDER,
      CUBLAS_VERSION,
      fmt::format("install the CUDA toolkit's libraries of major version {}", CUBLAS_VER_MAJOR)};
  return about;
}

const Blas& blas() {
  static const Blas* const found = [] {  // if this throws, the next call tries again
    LoadedLibrary library(blas_library());
    auto* made = new Blas;  // never destroyed: contexts may outlive main
#define TESSERA_BLAS_FIND(name) library.find(made->name, #name);
    TESSERA_BLAS_FUNCTIONS(TESSERA_BLAS_FIND)
#undef TESSERA_BLAS_FIND
    made->file = library.file();
    made->version = made->cublasLtGetVersion();
    library.check_version(made->version);
    return made;
  }();
  return *found;
}

}  // namespace tessera
