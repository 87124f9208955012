#include "tessera/runtime/cuda/vendor_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/shared_library.h"

namespace tessera {
namespace {

constexpr size_t kMajor = 10000;  // in both libraries' version numbers: 130100, 91900

std::string file_of(const void* function) {
  Dl_info about{};
  const bool known = dladdr(function, &about) != 0 && about.dli_fname != nullptr;
  return known ? about.dli_fname : "";
}

}  // namespace

LoadedLibrary::LoadedLibrary(VendorLibrary about) : about_(std::move(about)) {
  const std::vector<std::string> copies = library_copies(about_.name, {about_.folder});
  const std::string cut_off = copies.empty() ? "" : cut_off_text(copies[0]);
  if (!cut_off.empty())
    throw DeviceError(
        fmt::format("{}: '{}' {}; {}", about_.product, copies[0], cut_off, about_.install));
  handle_ = dlopen(about_.name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const std::string path = fmt::format("{}/{}", about_.folder, about_.name);
  handle_ = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle_ == nullptr)
    throw DeviceError(
        fmt::format("{}: cannot load {} ({}); {}, or add its directory "
                    "to LD_LIBRARY_PATH",
                    about_.product, about_.name, dlerror(), about_.install));
}

void* LoadedLibrary::address_of(const char* name) {
  void* const found = dlsym(handle_, name);
  if (found == nullptr)
    throw VersionMismatch(fmt::format(
        "{}: '{}' has no {}, so it is not the library that Tessera was built with ({}); remove its "
        "folder from LD_LIBRARY_PATH; run trainer doctor to list the copies",
        about_.product, file_.empty() ? about_.name : file_, name,
        cuda_version_text(about_.built, kMajor)));
  if (file_.empty()) file_ = file_of(found);
  return found;
}

void LoadedLibrary::check_version(size_t running, size_t least) const {
  const std::string versions =
      fmt::format("'{}' is version {}, but Tessera was built with {}", file_,
                  cuda_version_text(running, kMajor), cuda_version_text(about_.built, kMajor));
  if (running / kMajor != about_.built / kMajor || running < least)
    throw VersionMismatch(
        fmt::format("{}: {}; install version {}, or remove the folder of the other version from "
                    "LD_LIBRARY_PATH; run trainer doctor to list the copies",
                    about_.product, versions, about_.built / kMajor));
  if (running < about_.built)
    log(LogLevel::warning,
        fmt::format("{}: {}; an older version may lack required functions, and the last bits of "
                    "results differ; run trainer doctor to list the copies",
                    about_.product, versions));
}

}  // namespace tessera
