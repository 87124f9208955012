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

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

enum class VectorAxis { batch, width };

// Returns which of them takes less time than direct convolution, by a count made from the shape
// alone, if any does.
std::optional<VectorAxis> vector_axis_for(const ConvRequest& request);
// Returns whether the forward pass, or the gradient with respect to the filters, is of a
// convolution whose forward pass is better computed directly than with lanes.
bool forward_is_direct(const ConvRequest& request);

// Columns: whether the stride lets them.
bool may_use_vector_axis(VectorAxis lanes, const ConvShape& shape);

// Requires ConvPass::weight_grad.
std::unique_ptr<AnyConvolution> make_lanes_weight_grad(const ConvRequest& request,
                                                       VectorAxis lanes);

}  // namespace tessera
