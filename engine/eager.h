// Eager execution: its memory and its statistics.
#pragma once

#include "tessera/memory/allocator.h"
#include "tessera/runtime/device.h"

namespace tessera {

// The allocator that eager tensors and scratch of a device come from. Created on first use.
Allocator& eager_allocator(Device device);

}  // namespace tessera
