// LanesTiling: tasks of convolutions with lanes across images or columns, and the layout of their
// input, from the shape alone.
#pragma once

#include <algorithm>
#include <cstring>

#include "tessera/layers/conv2d/cpu/geometry.h"
#include "tessera/layers/conv2d/cpu/lanes.h"
#include "tessera/layers/conv2d/cpu/lanes_simd.h"

namespace tessera {

template <class T>
const LanesMicrokernelsOf<T>& lanes_kernels() {
  return microkernels_for<T>(TESSERA_SELECT_AVX_MICROKERNELS(lanes_microkernels));
}

// A task: rows [first, last) of a phase, of a group of images or one, with the input that they
// read.
struct LanesTask {
  int64_t image;
  int images;
  int64_t first, last;
  int64_t first_row, rows;  // rows of the input, within the image
};

// Distances are in elements. Outputs of a row are vectors, [column][channel][image] or
// [vector][channel][column].
struct LanesTiling {
  LanesTiling(const ConvGeometry& geometry, VectorAxis vector_axis, DType dtype);

  VectorAxis vector_axis;
  int64_t lanes, images, rows, bands, tasks;
  int64_t block_rows;            // maximum rows of input that a task reads
  int64_t row, column, channel;  // distances in a task's input
  int64_t next_vector;           // distance of the inputs of two vectors of outputs
  int64_t vectors;               // per channel in a row of outputs

  LanesTask task(const ConvGeometry& geometry, int64_t index) const;
  int64_t block_elements() const { return block_rows * row; }  // task's input
  // Returns the elements of the vectors of a row of outputs.
  int64_t output_row(const ConvGeometry& g) const { return vectors * g.out_c * lanes; }
};

// Transposes a task's rows of `from` into `block`, with zeros in columns outside the image.
template <class T>
void fill_block(const ConvGeometry& g, const LanesTiling& tiling, const LanesTask& task,
                const T* from, T* block) {
  const LanesMicrokernelsOf<T>& kernels = lanes_kernels<T>();
  const int64_t left = std::clamp<int64_t>(-g.base_w, 0, g.block_w);
  const int64_t end = std::clamp<int64_t>(g.in_w - g.base_w, left, g.block_w);
  if (tiling.vector_axis == VectorAxis::width)  // all at once, as the parts to clear are small
    std::memset(block, 0, task.rows * tiling.row * sizeof(T));
  for (int64_t r = 0; r < task.rows; ++r, block += tiling.row) {
    const int64_t row = task.image * g.in_h + task.first_row + r;
    const T* first = from + (row * g.in_w + g.base_w + left) * g.in_c;
    if (tiling.vector_axis == VectorAxis::batch) {
      std::memset(block, 0, left * tiling.column * sizeof(T));
      kernels.gather(first, g.in_h * g.in_w * g.in_c, task.images, (end - left) * g.in_c,
                     block + left * tiling.column, tiling.lanes);
      std::memset(block + end * tiling.column, 0, (g.block_w - end) * tiling.column * sizeof(T));
      continue;
    }
    for (int64_t j = left; j < end; j += tiling.lanes)
      kernels.gather(first + (j - left) * g.in_c, g.in_c,
                     static_cast<int>(std::min(tiling.lanes, end - j)), g.in_c, block + j,
                     tiling.channel);
  }
}

// One transpose of load_outputs or store_outputs: `used` lines of `elements` values, `stride`
// apart, from index `at` in memory, and vectors from index `vector` on.
struct LanesTranspose {
  int64_t at, stride;
  int used;
  int64_t elements, vector;
};

// Calls transpose(LanesTranspose) for rows of a task's outputs, whose images are `image` elements
// apart.
template <class F>
void for_transposes(const ConvGeometry& g, const LanesTiling& t, const LanesTask& task,
                    int64_t rows, int64_t image, const F& transpose) {
  const int64_t row = g.out_w * g.out_c;
  if (t.vector_axis == VectorAxis::batch)
    return transpose(LanesTranspose{0, image, task.images, rows * row, 0});
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t i = 0; i < t.vectors; ++i)
      transpose(LanesTranspose{y * row + i * t.lanes * g.out_c, g.out_c,
                               static_cast<int>(std::min(t.lanes, g.out_w - i * t.lanes)), g.out_c,
                               (y * t.vectors + i) * g.out_c * t.lanes});
}

// Transposes `rows` rows of a task's outputs from memory to vectors, or back. In memory, those of
// the first image are at `from` or `to`, those of the next one `image` elements further.
template <class T>
void load_outputs(const ConvGeometry& g, const LanesTiling& tiling, const LanesTask& task,
                  int64_t rows, const T* from, int64_t image, T* vectors) {
  for_transposes(g, tiling, task, rows, image, [&](const LanesTranspose& t) {
    lanes_kernels<T>().gather(from + t.at, t.stride, t.used, t.elements, vectors + t.vector,
                              tiling.lanes);
  });
}

template <class T>
void store_outputs(const ConvGeometry& g, const LanesTiling& tiling, const LanesTask& task,
                   int64_t rows, const T* vectors, T* to, int64_t image) {
  for_transposes(g, tiling, task, rows, image, [&](const LanesTranspose& t) {
    lanes_kernels<T>().scatter(vectors + t.vector, t.stride, t.used, t.elements, to + t.at);
  });
}

}  // namespace tessera
