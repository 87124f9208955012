// How a gathering convolution is cut into tasks and its sums into chunks, from the shape alone.
#pragma once

#include <cstdint>

#include "tessera/layers/conv2d/cpu/geometry.h"

namespace tessera {

// One task is `images` whole images, or `rows` phase rows (q) of one image.
struct GatherTiling {
  GatherTiling(const GatherGeometry& geometry, DType dtype);

  int64_t images, rows, blocks_per_image;
  int64_t tasks;
  int64_t block_h;  // rows of input that a task copies, for each image

  int64_t block_elements(const GatherGeometry& g) const {
    return images * block_h * g.block_w * g.in_c;
  }
};

// Pieces that a sum of `depth` products is cut into.
int64_t chunk_count(int64_t depth, DType dtype);
// Output channels computed before the next chunk is begun.
int64_t columns_together(DType dtype);
// Tasks that packing so many filter elements is cut into, at most `most`.
int64_t packing_tasks(int64_t elements, int64_t most);

}  // namespace tessera
