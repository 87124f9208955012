// Eager execution: its memory and its statistics.
#pragma once

#include <memory>

#include "tessera/engine/storage.h"
#include "tessera/memory/allocator.h"

namespace tessera {

// The allocator that eager tensors and scratch of a device come from. Created on first use.
Allocator& eager_allocator(Device device);

// A new block of eager memory; throws OutOfMemory. scratch: an op's, for as long as it runs.
std::shared_ptr<Storage> allocate_storage(size_t bytes, Device device, bool scratch = false);

}  // namespace tessera
