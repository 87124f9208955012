// What comparisons of two tensors ask of each pair of elements.
#pragma once

#include <cstdint>

#include "tessera/runtime/device.h"

namespace tessera {

enum class Relation : uint8_t { equal, not_equal, less, less_equal };

template <class T>
TESSERA_HOST_DEVICE bool result_of(Relation relation, T a, T b) {
  switch (relation) {
    case Relation::equal:
      return a == b;
    case Relation::not_equal:
      return a != b;
    case Relation::less:
      return a < b;
    case Relation::less_equal:
      return a <= b;
  }
  return false;
}

}  // namespace tessera
