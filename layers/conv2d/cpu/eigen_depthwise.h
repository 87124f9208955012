// Depthwise convolutions (groups == c == o) on Eigen's arrays: nothing but sums of products,
// channel by channel, for a row of pixels and a tap at a time. All three passes are one loop over
// what is multiplied and where it is added.
#pragma once

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

std::unique_ptr<AnyConvolution> make_eigen_depthwise(const ConvRequest& request);

}  // namespace tessera
