// How convolutions with lanes of images or columns are cut into tasks and lay out what they read,
// from the shape alone.
#pragma once

#include "tessera/layers/conv2d/cpu/geometry.h"
#include "tessera/layers/conv2d/cpu/lanes.h"
#include "tessera/layers/conv2d/cpu/lanes_simd.h"

namespace tessera {

template <class T>
const LanesMicrokernelsOf<T>& lanes_kernels() {
  return microkernels_for<T>(TESSERA_SELECT_AVX_MICROKERNELS(lanes_microkernels));
}

// A task: a group of images or one, and of each the rows [first, last) of a phase with what they
// read.
struct LanesTask {
  int64_t image;
  int images;
  int64_t first, last;
  int64_t first_row, rows;  // of the input, those that lie in the image
};

// Distances are in values. Outputs of a row are vectors, [column][channel][image] or
// [some columns][channel][column].
struct LanesTiling {
  LanesTiling(const ConvGeometry& geometry, VectorAxis vector_axis, DType dtype, int lanes);

  VectorAxis vector_axis;
  int64_t lanes, images, rows, bands, tasks;
  int64_t block_rows;            // most rows of input that a task reads
  int64_t row, column, channel;  // in a task's input, from one to the next
  int64_t next_vector;           // in it, between what two vectors of outputs read
  int64_t vectors;               // of each channel in a row of outputs

  LanesTask task(const ConvGeometry& geometry, int64_t index) const;
  int64_t block_elements() const { return block_rows * row; }  // of a task's input
  // Elements of vectors that hold a row of outputs.
  int64_t output_row(const ConvGeometry& g) const { return vectors * g.out_c * lanes; }
};

// Turns a task's rows of `from` into `block`, with zeros in columns outside the image.
template <class T>
void fill_block(const ConvGeometry& geometry, const LanesTiling& tiling, const LanesTask& task,
                const T* from, T* block);

// Rows [first, last) of a task's outputs between memory and vectors.
template <class T>
void load_outputs(const ConvGeometry& geometry, const LanesTiling& tiling, const LanesTask& task,
                  int64_t first, int64_t last, const T* from, T* vectors);
template <class T>
void store_outputs(const ConvGeometry& geometry, const LanesTiling& tiling, const LanesTask& task,
                   int64_t first, int64_t last, const T* vectors, T* to);

}  // namespace tessera
