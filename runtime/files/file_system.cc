#include "tessera/runtime/files/file_system.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Maximum interruptions of one call in a row; more are an error.
constexpr int kMaxInterruptions = 1000;

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

void MemorySource::read(uint64_t offset, void* to, size_t count) const {
  if (offset > bytes_.size() || count > bytes_.size() - offset)
    throw Error(
        fmt::format("cannot read bytes {} to {} of {}", offset, offset + count, bytes_.size()));
  if (count > 0) std::memcpy(to, bytes_.data() + offset, count);
}

FileSource::FileSource(const std::string& path, FileSystem& files) : files_(files) {
  // Do not block on a pipe, which is refused below.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  file_ = uninterrupted([&] { return files_.open(path.c_str(), kFlags, 0); });
  if (file_ < 0)
    throw Error(fmt::format("cannot be opened: {}{}", std::strerror(errno),
                            errno == ENOENT ? relative_path_help(path) : ""));
  struct stat properties {};
  const bool known = fstat(file_, &properties) == 0;
  if (!known || !S_ISREG(properties.st_mode)) {
    const int error = errno;
    files_.close(file_);
    throw Error(known ? "cannot be read: it is not a regular file"
                      : fmt::format("cannot be read: {}", std::strerror(error)));
  }
  size_ = static_cast<uint64_t>(properties.st_size);
}

void FileSource::read(uint64_t offset, void* to, size_t count) const {
  auto* at = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got =
        uninterrupted([&] { return files_.pread(file_, at, count, static_cast<int64_t>(offset)); });
    if (got <= 0)
      throw Error(fmt::format(
          "cannot be read: {}",
          got < 0 ? std::strerror(errno) : "the file is shorter than its reported size"));
    at += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
  }
}

}  // namespace tessera
