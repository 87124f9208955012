#include "tessera/runtime/host_memory.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fcntl.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <unistd.h>

namespace tessera {
namespace {

// The beginning of a file of the system, which is text.
class SystemFile {
 public:
  explicit SystemFile(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t got = ::read(file, text_, sizeof text_);
    if (got > 0) size_ = static_cast<size_t>(got);
    ::close(file);
  }

  // The number behind `name`, or the first one; -1 when there is none.
  int64_t number(std::string_view name = {}) const {
    std::string_view text(text_, size_);
    const size_t at = text.find(name);
    if (at == text.npos) return -1;
    text.remove_prefix(at + name.size());
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    int64_t value = -1;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  int64_t kib(std::string_view name) const { return std::max<int64_t>(number(name), 0) << 10; }

 private:
  char text_[4096];
  size_t size_ = 0;
};

}  // namespace

HostMemory host_memory() {
  const SystemFile process("/proc/self/status"), machine("/proc/meminfo");
  const SystemFile most("/sys/fs/cgroup/memory.max"), now("/sys/fs/cgroup/memory.current");
  HostMemory memory{process.kib("RssAnon:"), process.kib("VmHWM:"), machine.kib("MemAvailable:"),
                    machine.kib("MemTotal:")};
  if (most.number() >= 0 && now.number() >= 0)
    memory.free = std::clamp<int64_t>(most.number() - now.number(), 0, memory.free);
  return memory;
}

void release_unused_heap() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace tessera
