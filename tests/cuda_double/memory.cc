#include "memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "machine.h"
#include "protection.h"
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_double {
namespace {

constexpr size_t kAlignment = 256, kRedZone = 256;
constexpr unsigned char kRed = 0xa5, kPoison = 0xff;

size_t up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

long long number_of(const char* variable, long long otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

struct Block {
  Place place;
  int device;
  size_t bytes;
};

// Addresses of device memory: more than there is memory, so that fragmentation does not matter, as
// with a GPU's pages.
class Addresses {
 public:
  Addresses() {
    bytes_ = 4 * device_bytes() * static_cast<size_t>(device_count()) + (size_t{1} << 30);
    void* const begin = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) broken("no addresses for the memory of devices");
    begin_ = static_cast<char*>(begin);
    set_device_memory(begin_, bytes_);
    free_[begin_] = bytes_;
  }

  char* take(size_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < bytes) continue;
      char* const begin = it->first;
      const size_t rest = it->second - bytes;
      free_.erase(it);
      if (rest > 0) free_[begin + bytes] = rest;
      tell_used();
      return begin;
    }
    return nullptr;
  }

  void give(char* begin, size_t bytes) {
    auto after = free_.lower_bound(begin);
    if (after != free_.end() && begin + bytes == after->first) {
      bytes += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      auto before = std::prev(after);
      if (before->first + before->second == begin) {
        begin = before->first;
        bytes += before->second;
      }
    }
    free_[begin] = bytes;
    tell_used();
  }

 private:
  void tell_used() const {
    const auto last = free_.rbegin();
    const bool rest = last != free_.rend() && last->first + last->second == begin_ + bytes_;
    set_used(rest ? last->first : begin_ + bytes_);
  }

  char* begin_;
  size_t bytes_;
  std::map<char*, size_t> free_;
};

struct State {
  Addresses addresses;
  std::map<char*, Block> blocks;
  std::map<int, size_t> used;
};

State& state() {
  static auto* const all = new State;
  return *all;
}

// Forbids or allows the bytes around a block, so that a sanitizer reports an access at once.
void forbid([[maybe_unused]] const char* block, [[maybe_unused]] size_t bytes,
            [[maybe_unused]] bool forbidden) {
#if defined(__SANITIZE_ADDRESS__)
  const size_t behind = up(bytes) - bytes + kRedZone;
  const auto set = forbidden ? &__asan_poison_memory_region : &__asan_unpoison_memory_region;
  set(block - kRedZone, kRedZone);
  set(block + bytes, behind);
#endif
}

void paint(char* block, size_t bytes) {
  std::memset(block - kRedZone, kRed, kRedZone);
  std::memset(block, kPoison, bytes);
  std::memset(block + bytes, kRed, up(bytes) - bytes + kRedZone);
  forbid(block, bytes, true);
}

void check(const char* block, const Block& about) {
  forbid(block, about.bytes, false);
  const auto red = [](const char* at, size_t bytes) {
    return std::all_of(at, at + bytes,
                       [](char c) { return static_cast<unsigned char>(c) == kRed; });
  };
  const char* side = nullptr;
  if (!red(block - kRedZone, kRedZone)) side = "before";
  if (!red(block + about.bytes, up(about.bytes) - about.bytes + kRedZone)) side = "behind";
  if (side != nullptr)
    broken(std::string("a kernel or copy wrote ") + side + " a block of " +
           std::to_string(about.bytes) + " bytes");
  forbid(block, about.bytes, true);
}

void* add(char* memory, Place place, int device, size_t bytes) {
  char* const block = memory + kRedZone;
  OpenMemory open;
  paint(block, bytes);
  state().blocks[block] = {place, device, bytes};
  return block;
}

// Removes a block and returns its memory; nullptr if there is no such block.
char* forget(void* block, Place place, Block* about) {
  const auto it = state().blocks.find(static_cast<char*>(block));
  if (it == state().blocks.end() || it->second.place != place) return nullptr;
  OpenMemory open;
  check(it->first, it->second);
  *about = it->second;
  forbid(it->first, about->bytes, false);
  std::memset(it->first, kPoison, about->bytes);
  state().blocks.erase(it);
  return static_cast<char*>(block) - kRedZone;
}

size_t taken(size_t bytes) { return up(bytes) + 2 * kRedZone; }

}  // namespace

int device_count() {
  static const auto count = static_cast<int>(number_of("TESSERA_DOUBLE_DEVICES", 1));
  return count;
}

size_t device_bytes() {
  static const auto bytes = static_cast<size_t>(number_of("TESSERA_DOUBLE_MEMORY", 1LL << 30));
  return bytes;
}

size_t used_bytes(int device) { return state().used[device]; }

size_t pinned_bytes() {
  size_t bytes = 0;
  for (const auto& [block, about] : state().blocks)
    if (about.place == Place::pinned) bytes += about.bytes;
  return bytes;
}

Region region_of(const void* address) {
  auto* const at = static_cast<char*>(const_cast<void*>(address));
  auto it = state().blocks.upper_bound(at);
  if (it == state().blocks.begin()) return {};
  --it;
  if (at >= it->first + std::max<size_t>(it->second.bytes, 1)) return {};
  return {it->second.place, it->second.device, it->first, it->second.bytes};
}

void* take_device(int device, size_t bytes) {
  State& all = state();
  if (bytes > device_bytes() - all.used[device]) return nullptr;
  char* const memory = all.addresses.take(taken(bytes));
  if (memory == nullptr) return nullptr;
  all.used[device] += bytes;
  return add(memory, Place::device, device, bytes);
}

bool give_device(void* block) {
  Block about{};
  char* const memory = forget(block, Place::device, &about);
  if (memory == nullptr) return false;
  state().used[about.device] -= about.bytes;
  state().addresses.give(memory, taken(about.bytes));
  return true;
}

void* take_pinned(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 4096, taken(bytes) + 4096) != 0) return nullptr;
  return add(static_cast<char*>(memory), Place::pinned, -1, bytes);
}

bool give_pinned(void* block) {
  Block about{};
  char* const memory = forget(block, Place::pinned, &about);
  std::free(memory);
  return memory != nullptr;
}

void check_red_zones() {
  OpenMemory open;
  for (const auto& [block, about] : state().blocks) check(block, about);
}

}  // namespace cuda_double
