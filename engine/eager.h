// Eager execution: its memory and its statistics.
#pragma once

#include <string_view>

#include "tessera/memory/allocator.h"
#include "tessera/runtime/device.h"

namespace tessera {

// The allocator that eager tensors and scratch of a device come from: "caching" without a limit,
// made on first use, unless another one is set. Thread-safe.
Allocator& eager_allocator(Device device);
// From now on they come from a new allocator of that name (memory/allocator.h), with a limit or a
// reserve where wanted; tensors that live already stay with the one they came from. Throws
// ConfigError for an unknown name, OutOfMemory when the reserve cannot be had. Thread-safe.
void set_eager_allocator(Device device, std::string_view name,
                         const AllocatorSettings& settings = {});

}  // namespace tessera
