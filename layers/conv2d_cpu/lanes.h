// Native convolutions for channels too few to fill vectors with. Vectors run across
//
//   images    a task takes as many images as a vector has lanes, turns some rows of each into
//             vectors with a lane for each image, and computes with these what it would with single
//             values:  x [image][row][column][channel]  ->  [row][column][channel][image]
//   columns   of one image, where the stride across them is 1: the vector of a tap one column on
//             begins one value on:   x [row][column][channel]  ->  [row][channel][column]
//
// Images fill vectors whatever their size, and taps outside of them cost nothing; columns do not
// wait for other images. What is read and written must be turned, so both are for filters that use
// each value often enough.
#pragma once

#include <optional>

#include "tessera/layers/conv2d_cpu/convolution.h"

namespace tessera {

enum class LanesAre { images, columns };

// Which of them is the faster of the native ways, by a count made from the shape alone, if any is.
std::optional<LanesAre> lanes_for(ConvPass pass, const ConvShape& shape, size_t element);

// Columns: whether the stride lets them.
bool may_be_lanes(LanesAre lanes, const ConvShape& shape);

template <class T>
size_t lanes_scratch(ConvPass pass, const ConvShape& shape, LanesAre lanes, int threads);
template <class T>
std::unique_ptr<Convolution<T>> make_lanes(ConvPass pass, const ConvShape& shape, LanesAre lanes);

// For ConvPass::weight_grad the two below.
template <class T>
size_t lanes_weight_grad_scratch(const ConvShape& shape, LanesAre lanes, int threads);
template <class T>
std::unique_ptr<Convolution<T>> make_lanes_weight_grad(const ConvShape& shape, LanesAre lanes);

}  // namespace tessera
