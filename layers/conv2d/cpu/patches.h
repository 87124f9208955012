// The matrix of a convolution's patches, never made as a whole. Row p of it is what output pixel p,
// counted over all images, reads of one group of x: kh * kw * c / groups columns (u, v, k), as a
// filter has them, zero outside the image.
#pragma once

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

// Rows [first, first + count) and columns [begin, end) of a group's patches.
struct PatchPart {
  int64_t group, first, count, begin, end;
};

// Writes the part of x's patches to `to`, dense.
template <class T>
void pack_patches(const ConvShape& shape, const PatchPart& part, const T* x, T* to);
// Adds a part of a matrix like that to where its elements stand in dx.
template <class T>
void add_patches(const ConvShape& shape, const PatchPart& part, const T* from, T* dx);

}  // namespace tessera
