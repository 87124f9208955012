#include "tessera/runtime/shared_library.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <hdf5.h>
#include <link.h>
#include <png.h>
#include <zlib.h>

// The program's own table of what the loader did for it; none where it is linked statically.
extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak));

namespace tessera {
namespace {

void add(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(text);
}

// Of /etc/ld.so.conf.d, whose libraries the loader finds in its cache.
std::vector<std::string> configured_folders() {
  std::vector<std::string> folders;
  glob_t files{};
  if (glob("/etc/ld.so.conf.d/*.conf", 0, nullptr, &files) == 0)
    for (size_t i = 0; i < files.gl_pathc; ++i) {
      std::ifstream in(files.gl_pathv[i]);
      for (std::string line; std::getline(in, line);)
        if (line.starts_with('/')) add(folders, line.substr(0, line.find_last_not_of(" \t") + 1));
    }
  globfree(&files);
  return folders;
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  void* const program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (program != nullptr && dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> bytes(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* info = reinterpret_cast<Dl_serinfo*>(bytes.data());
    dlinfo(program, RTLD_DI_SERINFOSIZE, info);
    if (dlinfo(program, RTLD_DI_SERINFO, info) == 0)
      for (unsigned i = 0; i < info->dls_cnt; ++i) {
        const char* const name = info->dls_serpath[i].dls_name;
        add(folders, *name == 0 ? "." : name);
      }
  }
  if (program != nullptr) dlclose(program);
  for (const std::string& folder : configured_folders()) add(folders, folder);
  return folders;
}

std::vector<std::string> library_copies(std::string_view name,
                                        const std::vector<std::string>& besides) {
  std::vector<std::string> folders = library_folders(), copies, seen;
  folders.insert(folders.end(), besides.begin(), besides.end());
  for (const std::string& folder : folders) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::error_code error;
    const std::string real = std::filesystem::canonical(path, error).string();
    if (error || std::find(seen.begin(), seen.end(), real) != seen.end()) continue;
    seen.push_back(real);
    copies.push_back(path.string());
  }
  return copies;
}

std::string loaded_library(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "";
  link_map* map = nullptr;
  std::string file;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) file = map->l_name;
  dlclose(library);  // gives back what asking counted; it stays loaded
  return file;
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        if (info->dlpi_name != nullptr)
          add(*static_cast<std::vector<std::string>*>(to), info->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

std::string program_run_path() {
  const char* texts = nullptr;
  size_t at = 0;
  if (_DYNAMIC == nullptr) return "";
  for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) texts = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_RUNPATH || entry->d_tag == DT_RPATH) at = entry->d_un.d_val;
  }
  return texts != nullptr && at > 0 ? texts + at : "";
}

std::vector<LibraryVersion> library_versions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {
      {"zlib", ZLIB_VERSION, zlibVersion()},
      {"libpng", PNG_LIBPNG_VER_STRING, png_get_libpng_ver(nullptr)},
      {"HDF5", fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE),
       fmt::format("{}.{}.{}", major, minor, release)},
  };
}

}  // namespace tessera
