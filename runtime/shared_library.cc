#include "tessera/runtime/shared_library.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/runtime/text/bytes.h"

// The program's dynamic section; null if it is linked statically.
extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak));

namespace tessera {
namespace {

void add(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(text);
}

// Returns the folders of /etc/ld.so.conf.d, whose libraries the loader finds in its cache.
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

std::vector<std::string> library_folders(const std::string& library) {
  std::vector<std::string> folders;
  void* const program = library.empty() ? dlopen(nullptr, RTLD_LAZY)
                                        : dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
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
                                        const std::vector<std::string>& besides,
                                        const std::string& library) {
  std::vector<std::string> folders = library_folders(library), copies, seen;
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

std::string cut_off_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  ElfW(Ehdr) header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return "";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "";
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  uint64_t end = 0;
  ElfW(Phdr) segment{};
  for (int i = 0; i < header.e_phnum && in.read(reinterpret_cast<char*>(&segment), sizeof segment);
       ++i)
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_offset + segment.p_filesz);
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(file, error);
  if (error || bytes >= end) return "";
  return fmt::format("ends after {} of {}", byte_text(static_cast<int64_t>(bytes)),
                     byte_text(static_cast<int64_t>(end)));
}

LibraryTrial try_library(const std::string& file, const std::string& first,
                         const std::string& variable) {
  int ends[2];
  if (pipe(ends) != 0) return {"cannot create a pipe for a child process", 0};
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return {"cannot start a child process that loads it", 0};
  }
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);  // the vendor's error messages
    if (!first.empty()) dlopen(first.c_str(), RTLD_LAZY);
    void* const library = dlopen(file.c_str(), RTLD_NOW);
    const void* const found = library != nullptr ? dlsym(library, variable.c_str()) : nullptr;
    const int value = found != nullptr ? *static_cast<const int*>(found) : 0;
    dprintf(ends[1], "%d %s", value, library == nullptr ? dlerror() : "");
    _exit(library == nullptr ? 1 : 0);
  }
  close(ends[1]);
  std::string said;
  char part[512];
  for (ssize_t n = 0; (n = read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return {fmt::format("loading it crashes a process ({})", strsignal(WTERMSIG(status))), 0};
  const size_t space = said.find(' ');
  if (WEXITSTATUS(status) != 0) return {said.substr(space + 1), 0};
  return {"", std::atoi(said.c_str())};
}

std::string loaded_library(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "";
  link_map* map = nullptr;
  std::string file;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) file = map->l_name;
  dlclose(library);  // undoes dlopen's count; the library stays loaded
  return file;
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

std::string program_build_id() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        for (const ElfW(Phdr) & part : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
          if (part.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr);
          for (const char* end = at + part.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
            const auto& note = *reinterpret_cast<const ElfW(Nhdr)*>(at);
            const auto padded = [&](size_t n) { return (n + part.p_align - 1) & -part.p_align; };
            at += sizeof note;
            const std::string_view name(at, note.n_namesz);
            at += padded(note.n_namesz);
            if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4))
              for (const char byte : std::span(at, note.n_descsz))
                *static_cast<std::string*>(to) +=
                    fmt::format("{:02x}", static_cast<unsigned char>(byte));
            at += padded(note.n_descsz);
          }
        }
        return 1;  // the first entry is the program
      },
      &id);
  return id;
}

}  // namespace tessera
