// Native convolutions whose vectors run across images: a task takes as many images as a vector has
// lanes, turns some rows of each into vectors with a lane for each image, and computes with these
// what it would with single values.
//
//   x [image][row][column][channel]  ->  [row][column][channel][image of the group]
//
// Vectors are full whatever the number of channels, and taps outside the image cost nothing. What
// is read and written must be turned, so it is for filters that use each value often enough, and
// for channels too few to fill vectors with.
#pragma once

#include "tessera/layers/conv2d_cpu/convolution.h"

namespace tessera {

// Whether this is the faster of the native ways, by a count made from the shape alone.
bool image_lanes_apply(ConvPass pass, const ConvShape& shape, size_t element);

template <class T>
size_t image_lanes_scratch(ConvPass pass, const ConvShape& shape, int threads);
template <class T>
std::unique_ptr<Convolution<T>> make_image_lanes(ConvPass pass, const ConvShape& shape);

// For ConvPass::weight_grad the two below.
template <class T>
size_t image_lanes_weight_grad_scratch(const ConvShape& shape, int threads);
template <class T>
std::unique_ptr<Convolution<T>> make_image_lanes_weight_grad(const ConvShape& shape);

}  // namespace tessera
