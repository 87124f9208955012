#include "tessera/runtime/raw_memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// From this size on a block is a separate mapping, which release() returns to the system.
constexpr size_t kMapFrom = size_t{1} << 20;
constexpr size_t kHugePage = size_t{1} << 21;

class CpuMemory : public RawMemory {
 public:
  std::string name() const override { return "cpu:0"; }
  size_t available() const override {
    const int64_t free = host_memory().free;
    return free > 0 ? static_cast<size_t>(free) : kNoLimit;
  }

 protected:
  void* do_allocate(size_t bytes) override {
    if (bytes >= kMapFrom) {
      void* block =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (block == MAP_FAILED) return nullptr;
      if (bytes >= kHugePage) madvise(block, bytes, MADV_HUGEPAGE);  // advisory
      return block;
    }
    void* block = nullptr;
    return posix_memalign(&block, kMemoryAlignment, bytes) == 0 ? block : nullptr;
  }

  void do_deallocate(void* block, size_t bytes) noexcept override {
    if (bytes >= kMapFrom) {
      munmap(block, bytes);
      return;
    }
    std::free(block);
  }

  // Reserves four times the physical memory: enough for blocks and the gaps between them, and
  // little compared with the address space of a processor.
  AddressRange reserve_range() override {
    rlimit space{};  // `ulimit -v` counts addresses, too
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY) return {};
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes =
        round_to_alignment(4 * static_cast<size_t>(host_memory().total), kHugePage);
    if (bytes == 0) return {};
    std::byte* const at = empty_pages(nullptr, bytes + kHugePage);
    if (at == nullptr) return {};
    auto* const begin = reinterpret_cast<std::byte*>(
        round_to_alignment(reinterpret_cast<uintptr_t>(at), kHugePage));
    if (begin > at) munmap(at, static_cast<size_t>(begin - at));
    munmap(begin + bytes, static_cast<size_t>(at + kHugePage - begin));
    return {begin, bytes, page};
  }
  void release_range(const AddressRange& range) noexcept override {
    munmap(range.begin, range.bytes);
  }

 protected:
  bool back(const AddressRange&, std::byte* at, size_t bytes) override {
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
  }
  void unback(const AddressRange&, std::byte* at, size_t bytes) noexcept override {
    if (empty_pages(at, bytes) != nullptr) return;
    madvise(at, bytes, MADV_DONTNEED);  // too many mappings: frees pages, keeps rights
  }

 private:
  // Maps pages without memory or rights, at `at` if given; nullptr if the system refuses.
  static std::byte* empty_pages(std::byte* at, size_t bytes) noexcept {
    const int fixed = at == nullptr ? 0 : MAP_FIXED;
    void* const pages = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    madvise(pages, bytes, MADV_HUGEPAGE);  // advisory
    return static_cast<std::byte*>(pages);
  }
};

}  // namespace

size_t RawMemory::available() const {
  const size_t most = limit();
  if (most == kNoLimit) return kNoLimit;
  const std::lock_guard lock(mutex_);
  return most - std::min(most, statistics_.live_bytes);
}

void* RawMemory::allocate(size_t bytes, std::string_view tag) {
  if (bytes == 0) return nullptr;
  void* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    block = do_allocate(bytes);
    if (block != nullptr) {
      count_taken(block, bytes, tag);
      return block;
    }
    ++statistics_.failures;
  }
  refuse(bytes, tag);
}

void RawMemory::refuse(size_t bytes, std::string_view tag) {
  const std::string allowed =
      limit() == kNoLimit ? "" : fmt::format(" under a limit of {}", limit());
  const std::string held = usage_by_tag();
  const size_t fits = available();
  throw OutOfMemory(fmt::format(
      "{}: out of memory: {} bytes requested, {} in use{}{}; requested for: {}{}; use a smaller "
      "batch or raise the limit",
      name(), bytes, statistics().live_bytes, allowed, held.empty() ? "" : ", held by " + held, tag,
      fits == kNoLimit
          ? ""
          : fmt::format("; at most {} would fit", byte_text(static_cast<int64_t>(fits)))));
}

void RawMemory::release(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  std::lock_guard lock(mutex_);
  do_deallocate(block, bytes);
  count_given(block, bytes);
}

bool RawMemory::commit(const AddressRange& range, std::byte* at, size_t bytes,
                       std::string_view tag) {
  const std::lock_guard lock(mutex_);
  if (!back(range, at, bytes)) {
    ++statistics_.failures;
    return false;
  }
  count_taken(range.begin, bytes, tag);
  return true;
}

void RawMemory::decommit(const AddressRange& range, std::byte* at, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  unback(range, at, bytes);
  count_given(range.begin, bytes);
}

void RawMemory::count_taken(const void* block, size_t bytes, std::string_view tag) {
  statistics_.live_bytes += bytes;
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.live_bytes);
  statistics_.total_bytes += bytes;
  ++statistics_.allocations;
  Held& held = live_[block];
  held.bytes += bytes;
  held.tag = tag;
}

void RawMemory::count_given(const void* block, size_t bytes) noexcept {
  const auto held = live_.find(block);
  if (held != live_.end() && (held->second.bytes -= bytes) == 0) live_.erase(held);
  statistics_.live_bytes -= bytes;
  ++statistics_.releases;
}

std::string RawMemory::usage_by_tag() const {
  std::map<std::string, size_t> sums;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [block, held] : live_) sums[held.tag] += held.bytes;
  }
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [tag, bytes] : sums) order.emplace_back(bytes, tag);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [bytes, tag] : order)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", tag,
                        byte_text(static_cast<int64_t>(bytes)));
  return text;
}

RawMemory& cpu_memory() {
  static CpuMemory* memory = new CpuMemory;  // never destroyed: tensors may outlive main
  return *memory;
}

void* LimitedMemory::do_allocate(size_t bytes) {
  if (!fits(bytes)) return nullptr;
  try {
    void* block = inner_.allocate(bytes, tag_);
    used_ += bytes;
    return block;
  } catch (const OutOfMemory&) {
    return nullptr;
  }
}

}  // namespace tessera
