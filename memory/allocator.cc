#include "tessera/memory/allocator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/memory/caching_allocator.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// Allocates every block from the system: the baseline for other allocators, and best understood by
// memory checkers.
class DirectAllocator : public Allocator {
 public:
  DirectAllocator(RawMemory& memory, const AllocatorSettings& settings)
      : memory_(memory), limit_(settings.limit) {}

  ~DirectAllocator() override {
    for (const auto& [block, bytes] : blocks_) memory_.release(block, bytes);
  }

  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    std::lock_guard lock(mutex_);
    if (bytes > limit_ || statistics_.live_bytes > limit_ - bytes) {
      const size_t left = limit_ - statistics_.live_bytes;
      throw OutOfMemory(
          fmt::format("{}: out of memory: {} bytes requested, {} in use under a limit of {}; at "
                      "most {} would fit; use a smaller batch or raise the limit",
                      memory_.name(), bytes, statistics_.live_bytes, limit_,
                      byte_text(static_cast<int64_t>(left))));
    }
    void* block = memory_.allocate(bytes, kEagerTag);
    blocks_.emplace(block, bytes);
    ++statistics_.allocations;
    set_live(statistics_.live_bytes + bytes);
    return block;
  }

  void release(void* block) noexcept override {
    if (block == nullptr) return;
    std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) not_live("direct", block);
    memory_.release(block, found->second);
    ++statistics_.releases;
    set_live(statistics_.live_bytes - found->second);
    blocks_.erase(found);
  }

  void trim() override {}

  AllocatorStatistics statistics() const override {
    std::lock_guard lock(mutex_);
    return statistics_;
  }

  void reset_peak() override {
    std::lock_guard lock(mutex_);
    statistics_.peak_live_bytes = statistics_.peak_reserved_bytes = statistics_.live_bytes;
  }

 private:
  void set_live(size_t bytes) {
    AllocatorStatistics& s = statistics_;
    s.live_bytes = s.held_bytes = s.reserved_bytes = bytes;
    s.peak_live_bytes = std::max(s.peak_live_bytes, bytes);
    s.peak_reserved_bytes = std::max(s.peak_reserved_bytes, bytes);
  }

  RawMemory& memory_;
  const size_t limit_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, size_t> blocks_;
  AllocatorStatistics statistics_;
};

template <class A>
std::unique_ptr<Allocator> make(RawMemory& memory, const AllocatorSettings& settings) {
  return std::make_unique<A>(memory, settings);
}

struct Known {
  std::mutex mutex;
  std::vector<std::pair<std::string, AllocatorFactory>> all = {{"caching", make<CachingAllocator>},
                                                               {"direct", make<DirectAllocator>}};
};

Known& known() {
  static auto* all = new Known;
  return *all;
}

AllocatorFactory find(std::string_view name) {
  const std::lock_guard lock(known().mutex);
  for (const auto& [known_name, make] : known().all)
    if (known_name == name) return make;
  return nullptr;
}

}  // namespace

void not_live(std::string_view allocator, const void* block) {
  throw InternalError(
      fmt::format("{} allocator: {} was released but is not live", allocator, block));
}

void CachingAllocator::refuse(size_t bytes) const {
  const size_t most = limit();
  const std::string under = most == RawMemory::kNoLimit ? "" : fmt::format(", limit {}", most);
  throw OutOfMemory(
      fmt::format("{}: out of memory: {} bytes requested, {} live, {} reserved{}, largest free "
                  "block {}; {}use a smaller batch or raise the limit",
                  memory_.name(), bytes, statistics_.live_bytes, statistics_.reserved_bytes, under,
                  largest_free(), what_fits()));
}

std::string CachingAllocator::what_fits() const {
  size_t from_machine =
      std::min(limit() - std::min(limit(), statistics_.reserved_bytes), memory_.available());
  if (from_machine == RawMemory::kNoLimit) return "";
  if (in_range_ != nullptr) from_machine = from_machine / range_.page * range_.page;
  const size_t most = std::max(largest_free(), from_machine);
  return fmt::format("at most {} would fit; ", byte_text(static_cast<int64_t>(most)));
}

std::unique_ptr<Allocator> make_allocator(std::string_view name, RawMemory& memory,
                                          const AllocatorSettings& settings) {
  const AllocatorFactory make = find(name);
  return make ? make(memory, settings) : nullptr;
}

bool add_allocator(const std::string& name, AllocatorFactory make) {
  if (find(name)) return false;
  const std::lock_guard lock(known().mutex);
  known().all.push_back({name, std::move(make)});
  return true;
}

std::vector<std::string> known_allocators() {
  const std::lock_guard lock(known().mutex);
  std::vector<std::string> names;
  for (const auto& [name, make] : known().all) names.push_back(name);
  return names;
}

std::string allocator_names() { return fmt::format("{}", fmt::join(known_allocators(), ", ")); }

}  // namespace tessera
