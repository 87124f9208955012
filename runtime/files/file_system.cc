#include "tessera/runtime/files/file_system.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tessera {

int FileSystem::open(const char* path, int flags, int mode) { return ::open(path, flags, mode); }
ssize_t FileSystem::write(int file, const void* bytes, size_t count) {
  return ::write(file, bytes, count);
}
ssize_t FileSystem::pread(int file, void* bytes, size_t count, int64_t offset) {
  return ::pread(file, bytes, count, offset);
}
int FileSystem::ftruncate(int file, int64_t size) { return ::ftruncate(file, size); }
int FileSystem::fsync(int file) { return ::fsync(file); }
int FileSystem::close(int file) { return ::close(file); }
int FileSystem::rename(const char* from, const char* to) { return std::rename(from, to); }
int FileSystem::unlink(const char* path) { return ::unlink(path); }

FileSystem& file_system() {
  static FileSystem files;
  return files;
}

std::string relative_path_help(const std::string& path) {
  std::error_code error;
  if (std::filesystem::path(path).is_absolute()) return "";
  return fmt::format("; relative paths begin at the current folder '{}'",
                     std::filesystem::current_path(error).string());
}

namespace {

// Repeats a call that a signal interrupted.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  for (int i = 0; result < 0 && errno == EINTR && i < kMaxInterruptions; ++i) result = call();
  return result;
}

FileError fault(const char* operation) { return {operation, errno}; }

FileError write_new(FileSystem& files, const char* path,
                    std::span<const std::span<const std::byte>> parts) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const int file = uninterrupted([&] { return files.open(path, kFlags, 0666); });
  if (file < 0) return fault("open");
  FileError wrong;
  for (const auto& part : parts)
    if (!wrong && !write_all(files, file, part)) wrong = fault("write");
  // After a failed fsync the bytes may be lost for good: it is not tried again.
  if (!wrong && uninterrupted([&] { return files.fsync(file); }) < 0) wrong = fault("synchronise");
  // An interrupted close has closed the file nevertheless.
  if (files.close(file) < 0 && errno != EINTR && !wrong) wrong = fault("close");
  return wrong;
}

FileError sync_folder_of(FileSystem& files, const char* path) {
  char folder[PATH_MAX];
  const char* slash = std::strrchr(path, '/');
  const size_t length = slash == nullptr ? 0 : static_cast<size_t>(slash - path);
  if (length >= sizeof(folder)) return {"open the folder of", ENAMETOOLONG};
  std::memcpy(folder, path, length);
  folder[length] = '\0';
  const char* name = slash == nullptr ? "." : length == 0 ? "/" : folder;
  const int id =
      uninterrupted([&] { return files.open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (id < 0) return fault("open the folder of");
  FileError wrong;
  // Some file systems cannot sync a folder and return EINVAL.
  if (uninterrupted([&] { return files.fsync(id); }) < 0 && errno != EINVAL)
    wrong = fault("synchronise the folder of");
  files.close(id);
  return wrong;
}

}  // namespace

bool write_all(FileSystem& files, int file, std::span<const std::byte> bytes) noexcept {
  for (int idle = 0; !bytes.empty();) {
    const ssize_t done =
        uninterrupted([&] { return files.write(file, bytes.data(), bytes.size()); });
    if (done < 0) return false;
    idle = done == 0 ? idle + 1 : 0;
    if (idle > kMaxInterruptions) {
      errno = ENOSPC;
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return true;
}

FileError write_durably(FileSystem& files, const char* path,
                        std::span<const std::span<const std::byte>> parts) noexcept {
  char partial[PATH_MAX];
  const int length = std::snprintf(partial, sizeof(partial), "%s.partial", path);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(partial)) return {"open", ENAMETOOLONG};
  FileError wrong = write_new(files, partial, parts);
  if (!wrong && uninterrupted([&] { return files.rename(partial, path); }) < 0)
    wrong = fault("rename");
  if (wrong) {
    files.unlink(partial);
    return wrong;
  }
  wrong = sync_folder_of(files, path);
  wrong.in_place = true;
  return wrong;
}

}  // namespace tessera
