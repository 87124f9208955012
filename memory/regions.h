// The few large blocks an engine stands on: persistent values, slots, the arena. Each is one
// Region.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "tessera/runtime/raw_memory.h"

namespace tessera {

// Memory that an embedding program brings; it stays the program's own.
struct ExternalMemory {
  void* data = nullptr;
  size_t bytes = 0;
};

// One named block of bytes, taken at construction and released with the object. Move-only.
class Region {
 public:
  Region() = default;
  // Takes exactly `bytes` from `memory`, which must outlive the region. Throws OutOfMemory naming
  // the label.
  Region(std::string label, size_t bytes, RawMemory& memory);
  // Uses the first `bytes` of what is brought. Throws ConfigError when it is too small, absent or
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
  std::byte* data() const { return data_; }  // nullptr when bytes() is 0
  size_t bytes() const { return bytes_; }
  bool external() const { return bytes_ > 0 && memory_ == nullptr; }

 private:
  void swap(Region& other) noexcept;

  std::string label_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  RawMemory* memory_ = nullptr;  // where it is given back to; nullptr: not ours
};

}  // namespace tessera
