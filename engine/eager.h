// Eager execution: its memory and its statistics.
#pragma once

#include <memory>
#include <string_view>

#include "tessera/memory/allocator.h"
#include "tessera/runtime/device.h"

namespace tessera {

// The allocator that eager tensors and scratch of a device come from: "caching" without a limit,
// made on first use, unless another one is set. statistics() says what is live, reserved and at the
// peak; trim() hands the cache back. Thread-safe.
Allocator& eager_allocator(Device device);
// From now on they come from a new allocator of that name (memory/allocator.h), with a limit or a
// reserve where wanted; tensors that live already stay with the one they came from, which keeps no
// cache any more. Throws ConfigError for an unknown name, OutOfMemory when the reserve cannot be
// had. Thread-safe.
void set_eager_allocator(Device device, std::string_view name,
                         const AllocatorSettings& settings = {});
// The same with an allocator of one's own, which may take its bytes from where it likes.
void set_eager_allocator(Device device, std::unique_ptr<Allocator> allocator);

// The same for as long as the scope lives; then the one before counts again. Scopes of a device end
// in the reverse order.
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
