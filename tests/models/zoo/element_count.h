// element_count(): the number of elements of several tensors.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

inline int64_t element_count(const Tensors& tensors) {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.elements();
  return sum;
}

}  // namespace tessera
