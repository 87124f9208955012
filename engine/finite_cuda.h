// Is every number finite, on a GPU? Tensors are cut into parts by their sizes alone. A first launch
// gives each part a flag in scratch; what depends on the answer is another launch, which reads the
// flags. Defined only in builds with CUDA.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/engine/op.h"

namespace tessera {

// Of one tensor: parts of `elements` each, the last one shorter. At least one part, so that a
// tensor without elements has a flag as well. At most 1024, whose flags a block reads at once.
struct FiniteParts {
  int32_t elements, count;
  explicit FiniteParts(int64_t total) {
    constexpr int64_t kLeast = 4096, kMost = 1024, kStep = 1024;
    const int64_t wanted = (total + kMost - 1) / kMost;
    const int64_t part = std::max(kLeast, (wanted + kStep - 1) / kStep * kStep);
    elements = static_cast<int32_t>(part);
    count = static_cast<int32_t>(std::max<int64_t>(1, (total + part - 1) / part));
  }
};

// Bytes of the flags of all tensors.
inline size_t finite_scratch(std::span<const TensorSpec> tensors) {
  size_t count = 0;
  for (const TensorSpec& spec : tensors)
    count += static_cast<size_t>(FiniteParts(spec.shape.elements()).count);
  return count * sizeof(int32_t);
}

// flags[k] = 1 where part k, counted through all tensors, holds NaN or an infinity, else 0. Float
// tensors.
void flag_non_finite(CudaContext& where, Buffers tensors, int32_t* flags);

}  // namespace tessera
