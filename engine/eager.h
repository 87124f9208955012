// Eager execution: its memory and its statistics.
#pragma once

#include <memory>
#include <string_view>

#include "tessera/memory/allocator.h"
#include "tessera/runtime/device.h"

namespace tessera {

// Returns the allocator of the device's eager tensors and scratch. By default it is "caching"
// without a limit, made on first use. statistics() reports live, reserved and peak bytes; trim()
// frees the cache. Thread-safe.
Allocator& eager_allocator(Device device);
// Makes a new allocator of that name (memory/allocator.h) the device's eager allocator, with an
// optional limit and reserve. Existing tensors stay with their old allocator, which no longer
// caches. Throws ConfigError for an unknown name, OutOfMemory if the reserve cannot be allocated.
// Thread-safe.
void set_eager_allocator(Device device, std::string_view name,
                         const AllocatorSettings& settings = {});
// Installs a custom allocator, which may get its bytes from any source.
void set_eager_allocator(Device device, std::unique_ptr<Allocator> allocator);

// Sets the eager allocator while the scope exists, then restores the previous one. Scopes of a
// device end in reverse order.
class EagerAllocatorScope {
 public:
  EagerAllocatorScope(Device device, std::string_view name, const AllocatorSettings& settings = {});
  ~EagerAllocatorScope();
  EagerAllocatorScope(const EagerAllocatorScope&) = delete;
  EagerAllocatorScope& operator=(const EagerAllocatorScope&) = delete;

 private:
  const Device device_;
  Allocator* outer_;
};

}  // namespace tessera
