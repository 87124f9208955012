#include "tessera/runtime/files/byte_source.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

void MemorySource::read(uint64_t offset, void* to, size_t count) const {
  if (offset > bytes_.size() || count > bytes_.size() - offset)
    throw Error(
        fmt::format("cannot read bytes {} to {} of {}", offset, offset + count, bytes_.size()));
  if (count > 0) std::memcpy(to, bytes_.data() + offset, count);
}

FileSource::FileSource(const std::string& path) : FileSource(path, file_system()) {}

FileSource::FileSource(const std::string& path, FileSystem& files) : files_(files) {
  // Do not block on a pipe, which is refused below.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  file_ = files_.open(path.c_str(), kFlags, 0);
  for (int i = 0; file_ < 0 && errno == EINTR && i < kMaxInterruptions; ++i)
    file_ = files_.open(path.c_str(), kFlags, 0);
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

FileSource::~FileSource() { files_.close(file_); }

void FileSource::read(uint64_t offset, void* to, size_t count) const {
  auto* at = static_cast<char*>(to);
  for (int interrupted = 0; count > 0;) {
    const ssize_t got = files_.pread(file_, at, count, static_cast<int64_t>(offset));
    if (got < 0 && errno == EINTR && ++interrupted < kMaxInterruptions) continue;
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
