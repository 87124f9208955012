#include "tessera/runtime/raw_memory.h"

#include <fmt/format.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// From here on a block is a mapping of its own, which goes back to the machine when released.
[[maybe_unused]] constexpr size_t kMapFrom = size_t{1} << 20;
[[maybe_unused]] constexpr size_t kHugePage = size_t{1} << 21;

class CpuMemory : public RawMemory {
 public:
  std::string name() const override { return "cpu:0"; }

 protected:
  void* take(size_t bytes) noexcept override {
#if defined(__linux__)
    if (bytes >= kMapFrom) {
      void* block =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (block == MAP_FAILED) return nullptr;
      if (bytes >= kHugePage) madvise(block, bytes, MADV_HUGEPAGE);  // only a wish
      return block;
    }
#endif
    void* block = nullptr;
    return posix_memalign(&block, kMemoryAlignment, bytes) == 0 ? block : nullptr;
  }

  void give(void* block, [[maybe_unused]] size_t bytes) noexcept override {
#if defined(__linux__)
    if (bytes >= kMapFrom) {
      munmap(block, bytes);
      return;
    }
#endif
    std::free(block);
  }
};

}  // namespace

void* RawMemory::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  std::lock_guard lock(mutex_);
  void* block = take(bytes);
  if (block == nullptr) {
    ++statistics_.failures;
    std::string allowed = limit() == kNoLimit ? "" : fmt::format(" under a limit of {}", limit());
    throw OutOfMemory(fmt::format(
        "{}: out of memory: {} bytes asked, {} in use{}; use a smaller batch or raise the limit",
        name(), bytes, statistics_.live_bytes, allowed));
  }
  statistics_.live_bytes += bytes;
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.live_bytes);
  statistics_.total_bytes += bytes;
  ++statistics_.allocations;
  return block;
}

void RawMemory::release(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  std::lock_guard lock(mutex_);
  give(block, bytes);
  statistics_.live_bytes -= bytes;
  ++statistics_.releases;
}

RawMemoryStatistics RawMemory::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

void RawMemory::reset_peak() {
  std::lock_guard lock(mutex_);
  statistics_.peak_bytes = statistics_.live_bytes;
}

RawMemory& cpu_memory() {
  static CpuMemory* memory = new CpuMemory;  // never destroyed: tensors may outlive main
  return *memory;
}

void* LimitedMemory::take(size_t bytes) noexcept {
  if (bytes > limit_ || used_ > limit_ - bytes) return nullptr;
  try {
    void* block = inner_.allocate(bytes);
    used_ += bytes;
    return block;
  } catch (...) {
    return nullptr;
  }
}

void LimitedMemory::give(void* block, size_t bytes) noexcept {
  inner_.release(block, bytes);
  used_ -= bytes;
}

}  // namespace tessera
