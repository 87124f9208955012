// Region: one of the few large blocks of an engine: persistent values, slots, the arena.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "tessera/runtime/raw_memory.h"

namespace tessera {

// Memory that an embedding program provides and continues to own.
struct ExternalMemory {
  void* data = nullptr;
  size_t bytes = 0;
};

// A named block of bytes, allocated at construction and freed with the object. Move-only.
class Region {
 public:
  Region() = default;
  // Allocates exactly `bytes` from `memory`, which must outlive the region. Throws OutOfMemory
  // naming the label.
  Region(std::string label, size_t bytes, RawMemory& memory);
  // Uses the first `bytes` of `external`. Throws ConfigError if `external` is too small, absent or
  // does not start at a multiple of `alignment`: that of the device's memory.
  Region(std::string label, size_t bytes, ExternalMemory external,
         size_t alignment = kMemoryAlignment);
  ~Region();
  Region(Region&& other) noexcept { swap(other); }
  Region& operator=(Region&& other) noexcept {
    Region(std::move(other)).swap(*this);
    return *this;
  }

  const std::string& label() const { return label_; }
  std::byte* data() const { return data_; }  // nullptr if bytes() is 0
  size_t bytes() const { return bytes_; }
  bool external() const { return bytes_ > 0 && memory_ == nullptr; }

 private:
  void swap(Region& other) noexcept;

  std::string label_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  RawMemory* memory_ = nullptr;  // owner of the bytes; nullptr: external
};

}  // namespace tessera
