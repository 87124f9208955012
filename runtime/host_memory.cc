#include "tessera/runtime/host_memory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>

#include <fcntl.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <sys/resource.h>
#include <unistd.h>

namespace tessera {
namespace {

// The first 4 KiB of a text file of the system.
class SystemFile {
 public:
  explicit SystemFile(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t got = ::read(file, text_, sizeof text_);
    if (got > 0) size_ = static_cast<size_t>(got);
    ::close(file);
  }

  // Returns the number after `name`, or the first number; -1 if there is none.
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
  std::string_view text() const { return {text_, size_}; }
  int64_t kib(std::string_view name) const { return std::max<int64_t>(number(name), 0) << 10; }

 private:
  char text_[4096];
  size_t size_ = 0;
};

// Applies a limit, unless it exceeds the total memory.
void limit_to(HostMemory& memory, int64_t most, int64_t used) {
  if (most < 0 || used < 0 || most >= memory.total) return;
  memory.total = most;
  memory.free = std::clamp<int64_t>(most - used, 0, memory.free);
}

// Applies the limit of one control group, from its version 2 or 1 files.
void heed_group(HostMemory& memory, const char* folder, const char* path, size_t length,
                const char* most, const char* used, const char* cached) {
  const auto number = [&](const char* file, std::string_view what = {}) {
    char name[1024];
    std::snprintf(name, sizeof name, "%s%.*s/%s", folder, static_cast<int>(length), path, file);
    return SystemFile(name).number(what);
  };
  const int64_t in_use = number(used);
  // The inactive file cache counts as free, because the kernel drops it when memory is needed.
  limit_to(
      memory, number(most),
      in_use < 0 ? -1 : in_use - std::clamp<int64_t>(number("memory.stat", cached), 0, in_use));
}

// Applies the limits of the process's control group and its ancestors. If a container hides the
// path from the root, the files at the root are those of the container.
void heed_groups(HostMemory& memory) {
  const SystemFile groups("/proc/self/cgroup");
  std::string_view lines = groups.text();
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const size_t colon = line.find(':'), second = line.find(':', colon + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(colon + 1, second - colon - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("memory") == controllers.npos) continue;
    const std::string_view path = line.substr(second + 1);
    for (size_t length = path.size();; length = path.rfind('/', length - 1)) {
      if (length == path.npos) length = 0;
      if (v2) {
        heed_group(memory, "/sys/fs/cgroup", path.data(), length, "memory.max", "memory.current",
                   "\ninactive_file ");
      } else {
        heed_group(memory, "/sys/fs/cgroup/memory", path.data(), length, "memory.limit_in_bytes",
                   "memory.usage_in_bytes", "total_inactive_file ");
      }
      if (length == 0) break;
    }
  }
}

}  // namespace

HostMemory host_memory() {
  const SystemFile process("/proc/self/status"), machine("/proc/meminfo");
  HostMemory memory;
  memory.process = process.kib("RssAnon:");
  memory.process_most = process.kib("VmHWM:");
  memory.libraries = process.kib("RssFile:");
  memory.swapped = process.kib("VmSwap:");
  memory.free = machine.kib("MemAvailable:");
  memory.total = machine.kib("MemTotal:");
  memory.swap_total = machine.kib("SwapTotal:");
  memory.swap_free = machine.kib("SwapFree:");
  memory.free = std::min(memory.free, memory.total);
  heed_groups(memory);
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const int64_t left = static_cast<int64_t>(space.rlim_cur) - process.kib("VmSize:");
    memory.free = std::clamp<int64_t>(left, 0, memory.free);
  }
  return memory;
}

void release_unused_heap() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace tessera
