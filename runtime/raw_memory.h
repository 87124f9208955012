// Where tensor bytes come from: the only caller of the system allocator for them.
//
// RawMemory counts and reports; a subclass only says how bytes are taken and given back, so a test
// or an embedding program can put its own in place. Blocks are few and large: allocators, regions
// and programs cut them up. Never zero-filled on purpose. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tessera {

// Every block starts at a multiple of this many bytes, or of more (RawMemory::alignment()).
inline constexpr size_t kMemoryAlignment = 64;

// Bytes rounded up to a multiple.
constexpr size_t round_to_alignment(size_t bytes, size_t alignment = kMemoryAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct RawMemoryStatistics {
  size_t live_bytes = 0;   // asked for and not yet released
  size_t peak_bytes = 0;   // the largest live_bytes since the start or reset_peak()
  size_t total_bytes = 0;  // sum over all calls
  uint64_t allocations = 0;
  uint64_t releases = 0;
  uint64_t failures = 0;
};

// Addresses that are reserved and have memory only in the pages that were committed.
struct AddressRange {
  std::byte* begin = nullptr;  // a multiple of page
  size_t bytes = 0;
  size_t page = 0;
};

class RawMemory {
 public:
  static constexpr size_t kNoLimit = SIZE_MAX;

  RawMemory() = default;
  virtual ~RawMemory() = default;
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;

  // A block that starts at a multiple of alignment(); nullptr for 0 bytes. `tag`: what it is
  // for, as errors name it. Throws OutOfMemory naming bytes asked and in use, the holders and what
  // would fit; DeviceError where a device fails for another reason.
  void* allocate(size_t bytes, std::string_view tag = "others");
  // Gives back what allocate(bytes) returned; nullptr is allowed.
  void release(void* block, size_t bytes) noexcept;

  // Reserves addresses, which cost no memory and count nothing. Returns a range without bytes if
  // this memory has none; the caller then allocates blocks.
  virtual AddressRange reserve_range() { return {}; }
  // Gives the addresses back. Requires that no page is committed.
  virtual void release_range(const AddressRange&) noexcept {}
  // Puts memory behind whole pages of a range, none of which is committed; counted like a block.
  // Returns false if there is none. Throws DeviceError where a device fails for another reason.
  bool commit(const AddressRange& range, std::byte* at, size_t bytes, std::string_view tag);
  // Gives the memory of committed pages back; the addresses stay reserved.
  void decommit(const AddressRange& range, std::byte* at, size_t bytes) noexcept;

  // As errors and reports name it: "cpu:0".
  virtual std::string name() const = 0;
  // Where blocks start, and tensors in them: a power of two, at least kMemoryAlignment.
  virtual size_t alignment() const { return kMemoryAlignment; }
  // The most bytes that may be live at once; kNoLimit when only the machine decides.
  virtual size_t limit() const { return kNoLimit; }
  // What could be had beside what is live now; kNoLimit where nobody knows.
  virtual size_t available() const;

  // Who holds how much, the largest first: "arena 40.00 MiB, persistent 4.00 MiB".
  std::string usage_by_tag() const;
  RawMemoryStatistics statistics() const;
  void reset_peak();

 protected:
  // Called with the counters locked and bytes > 0. do_allocate() returns nullptr when there is no
  // memory, and throws DeviceError for any other reason.
  virtual void* do_allocate(size_t bytes) = 0;
  virtual void do_deallocate(void* block, size_t bytes) noexcept = 0;
  // Called likewise, for memories that have ranges; back() returns false when there is no memory.
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
  std::unordered_map<const void*, Held> live_;  // by block, or where a range begins
};

// The host's memory; lives as long as the process.
RawMemory& cpu_memory();

// Another memory under a hard limit in bytes; keeps a reference to it. What memory.limit leaves to
// eager tensors is one, whichever allocator stands on it.
class LimitedMemory : public RawMemory {
 public:
  // `tag`: what the other memory's errors call it.
  LimitedMemory(RawMemory& inner, size_t limit, std::string_view tag = "a limited memory")
      : inner_(inner), limit_(limit), tag_(tag) {}

  std::string name() const override { return inner_.name(); }
  size_t alignment() const override { return inner_.alignment(); }
  size_t limit() const override { return limit_; }
  size_t available() const override;
  AddressRange reserve_range() override { return inner_.reserve_range(); }
  void release_range(const AddressRange& range) noexcept override { inner_.release_range(range); }

 protected:
  void set_limit(size_t limit) { limit_ = limit; }
  void* do_allocate(size_t bytes) override;
  void do_deallocate(void* block, size_t bytes) noexcept override;
  bool back(const AddressRange& range, std::byte* at, size_t bytes) override;
  void unback(const AddressRange& range, std::byte* at, size_t bytes) noexcept override;

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

}  // namespace tessera
