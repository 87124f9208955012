// Convolutions with 3x3 filters by Winograd's minimal filtering (Lavin and Gray, "Fast algorithms
// for convolutional neural networks", 2016). Requires has_native_kernels().
//
//   y = A^T [ (G g G^T) * (B^T d B) ] A        for each tile of inputs d; * by elements, summed
//                                              over the channels: matrix products
//   df = G^T [ (A dy A^T) * (B^T d B) ] G      summed over the tiles
//
// Stride 1 uses F(m x m, 3x3): m x m outputs take p x p multiplications a channel, p = m + 2,
// instead of 9 m x m. The input gradient is the convolution of dy with the flipped filters.
//
// Stride 2 is the sum of four convolutions with stride 1, of 2x2, 2x1, 1x2 and 1x1 taps, as a tap
// reads either the even or the odd rows and columns. A tile of 9x9 inputs gives 4x4 outputs with 81
// multiplications, which share 36 transformed filters, instead of 144. The input gradient computes
// tiles of 8x8 from 5x5 of dy.
//
// Only in float: rounding errors grow a little with m, which users of double want to avoid; with
// products of bfloat16 they would be ten times those of a direct convolution. Images may be
// bfloat16. A non-finite value spreads over its tile, mostly as NaN.
#pragma once

#include <memory>

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

// Returns the m, 2 or 4, with the least estimated time of a pass; 0 if the direct convolution takes
// less.
int winograd_tile(const ConvRequest& request);

// Returns true if constant filters should be kept transformed, in 16/9 or 4 times their bytes,
// because there are few tiles for each filter.
bool winograd_packs_filters(const ConvShape& shape, int m);

// Returns true if the weight gradient applies a prologue to the rows that a block of tiles reads.
bool winograd_weight_grad_takes_prologue(const ConvShape& shape);
std::unique_ptr<AnyConvolution> make_winograd_weight_grad(const ConvRequest& request, int m,
                                                          bool prologue);

}  // namespace tessera
