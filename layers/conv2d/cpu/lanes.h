// Native convolutions for too few channels to fill vectors. Vectors run across
//
//   batch     a task takes as many images as a vector has lanes, transposes some rows of each into
//             vectors with a lane for each image, and computes with these vectors as with scalars:
//             x [image][row][column][channel]  ->  [row][column][channel][image]
//   width     of one image, if the horizontal stride is 1: the vector of the next column's tap
//             begins one element later:   x [row][column][channel]  ->  [row][channel][column]
//
// Vectors across the batch are full for any image size, and taps outside the image cost nothing.
// Vectors across the width need only one image. Input and output must be transposed, so both are
// for filters that use each element often enough.
#pragma once

#include <optional>

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

enum class VectorAxis { batch, width };

// Returns the axis that is faster than direct convolution, estimated from the shape alone; nullopt
// if neither is.
std::optional<VectorAxis> vector_axis_for(const ConvRequest& request);
// Returns true for the forward pass and the filter gradient of a convolution whose forward pass is
// faster directly than with lanes.
bool forward_is_direct(const ConvRequest& request);

}  // namespace tessera
