#include "tessera/runtime/cuda/blas.h"

#include <atomic>

#include <fmt/format.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/vendor_library.h"

namespace tessera {
namespace {

std::atomic<const Blas*> loaded{nullptr};

const Blas* load_blas() {
  LoadedLibrary library(
      {"cuBLASLt", cuda_blas_name(), cuda_build_folder(), CUBLAS_VERSION,
       fmt::format("install the CUDA toolkit's libraries of major version {}", CUBLAS_VER_MAJOR)});
  auto* found = new Blas;  // never destroyed: contexts may outlive main
#define TESSERA_BLAS_FIND(name) library.find(found->name, #name);
  TESSERA_BLAS_FUNCTIONS(TESSERA_BLAS_FIND)
#undef TESSERA_BLAS_FIND
  found->file = library.file();
  found->version = found->cublasLtGetVersion();
  library.check_version(found->version);
  loaded = found;
  return found;
}

}  // namespace

const Blas& blas() {
  static const Blas* const found = load_blas();  // if this throws, the next call tries again
  return *found;
}

const Blas* loaded_blas() { return loaded; }

}  // namespace tessera
