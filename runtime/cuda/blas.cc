#include "tessera/runtime/cuda/blas.h"

#include <atomic>

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"

namespace tessera {
namespace {

std::atomic<const Blas*> loaded{nullptr};

std::string file_of(const void* function) {
  Dl_info about{};
  const bool known = dladdr(function, &about) != 0 && about.dli_fname != nullptr;
  return known ? about.dli_fname : "";
}

void* open_library() {
  const std::string name = cuda_blas_name();
  if (void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
  const std::string path = fmt::format("{}/{}", cuda_build_folder(), name);
  if (void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
  throw DeviceError(
      fmt::format("cuBLASLt: {} is not to be had ({}); install the CUDA toolkit's libraries of "
                  "major version {}, or put the folder they are in on LD_LIBRARY_PATH",
                  name, dlerror(), CUBLAS_VER_MAJOR));
}

const Blas* load() {
  void* const library = open_library();
  auto* found = new Blas;  // never destroyed: contexts may outlive main
  const char* lacking = nullptr;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) lacking = name;
    if (function != nullptr && found->file.empty())
      found->file = file_of(reinterpret_cast<const void*>(function));
  };
#define TESSERA_BLAS_FIND(name) find(found->name, #name);
  TESSERA_BLAS_FUNCTIONS(TESSERA_BLAS_FIND)
#undef TESSERA_BLAS_FIND
  if (lacking != nullptr)
    throw VersionMismatch(
        fmt::format("cuBLASLt: '{}' has no {}, so it is not the library that this was built with "
                    "({}); take its folder off LD_LIBRARY_PATH; trainer doctor lists the copies",
                    found->file.empty() ? cuda_blas_name() : found->file, lacking,
                    cuda_version_text(CUBLAS_VERSION, 10000)));
  found->version = found->cublasLtGetVersion();
  const std::string versions = fmt::format("'{}' is version {}, this was built with {}",
                                           found->file, cuda_version_text(found->version, 10000),
                                           cuda_version_text(CUBLAS_VERSION, 10000));
  if (found->version / 10000 != CUBLAS_VER_MAJOR)
    throw VersionMismatch(
        fmt::format("cuBLASLt: {}; install version {}, or take the folder of the other off "
                    "LD_LIBRARY_PATH; trainer doctor lists the copies",
                    versions, CUBLAS_VER_MAJOR));
  if (found->version < CUBLAS_VERSION)
    log(LogLevel::warning, fmt::format("cuBLASLt: {}; an older one may lack what it needs, and "
                                       "gives other last bits; trainer doctor lists the copies",
                                       versions));
  loaded = found;
  return found;
}

}  // namespace

const Blas& blas() {
  static const Blas* const found = load();  // where it throws, the next call tries again
  return *found;
}

const Blas* loaded_blas() { return loaded; }

}  // namespace tessera
