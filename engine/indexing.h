// Where ops that go by indices find their elements; the same on every device.
#pragma once

#include "tessera/engine/shape.h"
#include "tessera/runtime/device.h"

namespace tessera {

// x as [outer, size, inner], the indices as [outer, count, inner].
struct IndexGeometry {
  int64_t outer, count, inner;
  IndexGeometry(const Shape& index, int axis)
      : outer(index.elements(0, axis)),
        count(index[axis]),
        inner(index.elements(axis + 1, index.rank())) {}
};

// The place along an axis of `size` that an index means, or -1 where it is outside.
TESSERA_HOST_DEVICE inline int64_t place_of(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

}  // namespace tessera
