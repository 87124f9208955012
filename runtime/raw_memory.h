// RawMemory: the memory of a device; the only caller of the system allocator for tensor bytes.
//
// RawMemory counts and reports. A subclass only allocates and frees bytes, so a test or an
// embedding program can provide its own. Blocks are few and large; allocators, regions and programs
// divide them. Not zero-initialized. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera {

// Every block starts at a multiple of this number of bytes, or of more (RawMemory::alignment()).
inline constexpr size_t kMemoryAlignment = 64;

// Returns bytes rounded up to a multiple of alignment.
constexpr size_t round_to_alignment(size_t bytes, size_t alignment = kMemoryAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct RawMemoryStatistics {
  size_t live_bytes = 0;   // allocated and not released
  size_t peak_bytes = 0;   // largest live_bytes since the start or reset_peak()
  size_t total_bytes = 0;  // sum over all calls
  uint64_t allocations = 0;
  uint64_t releases = 0;
  uint64_t failures = 0;
};

// A range of reserved addresses; only committed pages have memory.
struct AddressRange {
  std::byte* begin = nullptr;  // a multiple of page
  size_t bytes = 0;
  size_t page = 0;
};

class RawMemory {
 public:
  static constexpr size_t kNoLimit = SIZE_MAX;

  virtual ~RawMemory() = default;

  // Allocates a block at a multiple of alignment(); returns nullptr for 0 bytes. `tag` is its
  // purpose in errors and reports. Throws OutOfMemory with the bytes requested and in use, the
  // usage by tag and the size that would fit; DeviceError if a device fails for another reason.
  void* allocate(size_t bytes, std::string_view tag = "others");
  // Frees a block of allocate(bytes); nullptr is allowed.
  void release(void* block, size_t bytes) noexcept;

  // Reserves addresses, which use no memory and are not counted. Returns a range without bytes if
  // this memory has none; the caller then allocates blocks.
  virtual AddressRange reserve_range() { return {}; }
  // Releases the addresses. Requires that no page is committed.
  virtual void release_range(const AddressRange&) noexcept {}
  // Commits memory for whole pages of a range, none of which is committed; counted like a block.
  // Returns false if there is no memory. Throws DeviceError if a device fails for another reason.
  bool commit(const AddressRange& range, std::byte* at, size_t bytes, std::string_view tag);
  // Frees the memory of committed pages; the addresses stay reserved.
  void decommit(const AddressRange& range, std::byte* at, size_t bytes) noexcept;

  // Returns the name in errors and reports: "cpu:0".
  virtual std::string name() const = 0;
  // Returns the alignment of blocks and of the tensors in them: a power of two, >=
  // kMemoryAlignment.
  virtual size_t alignment() const { return kMemoryAlignment; }
  // Returns the maximum of live bytes; kNoLimit if only the system limits them.
  virtual size_t limit() const { return kNoLimit; }
  // Returns the bytes that could be allocated in addition to the live ones; kNoLimit if unknown.
  virtual size_t available() const;

  // Returns live bytes by tag, the largest first: "arena 40.00 MiB, persistent 4.00 MiB".
  std::string usage_by_tag() const;
  RawMemoryStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak_bytes = statistics_.live_bytes;
  }

 protected:
  // Called with the counters locked and bytes > 0. do_allocate() returns nullptr if there is no
  // memory, and throws DeviceError for any other reason.
  virtual void* do_allocate(size_t bytes) = 0;
  virtual void do_deallocate(void* block, size_t bytes) noexcept = 0;
  // Called likewise, for memories with ranges; back() returns false if there is no memory.
  virtual bool back(const AddressRange&, std::byte*, size_t) { return false; }
  virtual void unback(const AddressRange&, std::byte*, size_t) noexcept {}

 private:
  void count_taken(const void* block, size_t bytes, std::string_view tag);
  void count_given(const void* block, size_t bytes) noexcept;

  struct Held {
    size_t bytes;
    std::string tag;
  };
  [[noreturn]] void refuse(size_t bytes, std::string_view tag);

  mutable std::mutex mutex_;
  RawMemoryStatistics statistics_;
  std::unordered_map<const void*, Held> live_;  // by block, or by the beginning of a range
};

// Returns the host's memory, which exists as long as the process.
RawMemory& cpu_memory();

// Limits another memory to a number of bytes; keeps a reference to it. Eager tensors under
// memory.limit use one, with any allocator.
class LimitedMemory : public RawMemory {
 public:
  // `tag` is the tag of these bytes in `inner`.
  LimitedMemory(RawMemory& inner, size_t limit, std::string_view tag = "a limited memory")
      : inner_(inner), limit_(limit), tag_(tag) {}

  std::string name() const override { return inner_.name(); }
  size_t alignment() const override { return inner_.alignment(); }
  size_t limit() const override { return limit_; }
  size_t available() const override { return std::min(RawMemory::available(), inner_.available()); }
  AddressRange reserve_range() override { return inner_.reserve_range(); }
  void release_range(const AddressRange& range) noexcept override { inner_.release_range(range); }

 protected:
  void set_limit(size_t limit) { limit_ = limit; }
  void* do_allocate(size_t bytes) override;
  void do_deallocate(void* block, size_t bytes) noexcept override {
    inner_.release(block, bytes);
    used_ -= bytes;
  }
  bool back(const AddressRange& range, std::byte* at, size_t bytes) override {
    if (!fits(bytes) || !inner_.commit(range, at, bytes, tag_)) return false;
    used_ += bytes;
    return true;
  }
  void unback(const AddressRange& range, std::byte* at, size_t bytes) noexcept override {
    inner_.decommit(range, at, bytes);
    used_ -= bytes;
  }

 private:
  bool fits(size_t bytes) const {
    const size_t limit = limit_;
    return bytes <= limit && used_ <= limit - bytes;
  }

  RawMemory& inner_;
  std::atomic<size_t> limit_;
  const std::string tag_;
  size_t used_ = 0;
};

// An allocation of host or GPU memory, for reports and limits: its purpose and size.
struct MemoryItem {
  std::string name;
  size_t bytes = 0;
};

inline int64_t total_bytes(const std::vector<MemoryItem>& buffers) {
  int64_t sum = 0;
  for (const MemoryItem& buffer : buffers) sum += static_cast<int64_t>(buffer.bytes);
  return sum;
}

}  // namespace tessera
