// LanesTiling: tasks of convolutions with lanes across images or columns, and the layout of their
// input, from the shape alone.
#pragma once

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
void fill_block(const ConvGeometry& geometry, const LanesTiling& tiling, const LanesTask& task,
                const T* from, T* block);

// Transposes `rows` rows of a task's outputs from memory to vectors, or back. In memory, those of
// the first image are at `from` or `to`, those of the next one `image` elements further.
template <class T>
void load_outputs(const ConvGeometry& geometry, const LanesTiling& tiling, const LanesTask& task,
                  int64_t rows, const T* from, int64_t image, T* vectors);
template <class T>
void store_outputs(const ConvGeometry& geometry, const LanesTiling& tiling, const LanesTask& task,
                   int64_t rows, const T* vectors, T* to, int64_t image);

}  // namespace tessera
