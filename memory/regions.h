// Region: one of the few large blocks of an engine: persistent values, slots, the arena.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

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

  const std::string& label() const { return label_; }
  std::byte* data() const { return data_.get(); }  // nullptr if bytes() is 0
  size_t bytes() const { return data_ ? data_.get_deleter().bytes : 0; }

 private:
  struct Release {
    size_t bytes;
    RawMemory* memory;  // owner of the bytes; nullptr: external
    void operator()(std::byte* data) const {
      if (memory != nullptr) memory->release(data, bytes);
    }
  };

  std::string label_;
  std::unique_ptr<std::byte, Release> data_;
};

}  // namespace tessera
