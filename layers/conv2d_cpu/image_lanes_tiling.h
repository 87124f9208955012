// How convolutions with a lane for each image are cut into tasks, from the shape alone.
#pragma once

#include "tessera/layers/conv2d_cpu/geometry.h"
#include "tessera/layers/conv2d_cpu/image_lanes_simd.h"

namespace tessera {

template <class T>
const ImageLanesMicrokernelsOf<T>& image_lanes_kernels() {
  return microkernels_for<T>(TESSERA_SELECT_AVX_MICROKERNELS(image_lanes_microkernels));
}

// A task: a group of images, and of each the rows [first, last) of a phase with what they read.
struct ImageLanesTask {
  int64_t image;
  int images;
  int64_t first, last;
  int64_t first_row, rows;  // of the input, those that lie in the image
};

struct ImageLanesTiling {
  ImageLanesTiling(const GatherGeometry& geometry, size_t element, int lanes);

  int64_t lanes, rows, bands, tasks;
  int64_t block_rows;  // most rows of input that a task reads

  ImageLanesTask task(const GatherGeometry& geometry, int64_t index) const;
  // Of a task's input.
  int64_t block_elements(const GatherGeometry& g) const {
    return block_rows * g.block_w * g.in_c * lanes;
  }
};

// Turns a task's rows of `from` into `block`, [row][column of the block][channel][image], with
// zeros in columns outside the image.
template <class T>
void fill_image_lanes(const GatherGeometry& geometry, const ImageLanesTask& task, const T* from,
                      T* block);

}  // namespace tessera
