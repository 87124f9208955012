// Convolutions with 3x3 filters by Winograd's minimal filtering (Lavin and Gray, "Fast algorithms
// for convolutional neural networks", 2016), where has_native_kernels() only.
//
//   y = A^T [ (G g G^T) * (B^T d B) ] A        for each tile of inputs d; * by elements, summed
//                                              over the channels: matrix products
//   df = G^T [ (A dy A^T) * (B^T d B) ] G      summed over the tiles
//
// With stride 1, F(m x m, 3x3): m x m outputs take p x p multiplications a channel instead of 9 m x
// m, p = m + 2. The gradient with respect to the input is the convolution of dy with the filters
// turned around.
//
// With stride 2, a tap meets either the even or the odd rows and columns, and the convolution is
// the sum of four with stride 1, of 2x2, 2x1, 1x2 and 1x1 taps: one tile of 9x9 inputs is made 4x4
// outputs with 81 multiplications instead of 144, many of them with the same filters, of which
// there are 36. The gradient with respect to the input makes tiles of 8x8 from 5x5 of dy.
//
// Only float: rounding errors grow a little with m, which double is asked for to avoid.
// A value that is not finite spreads over its tile, mostly as NaN.
#pragma once

#include <memory>

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

// Returns the m with which a pass takes least time by a count of what it computes and moves, 2 or
// 4; 0 if the direct convolution does.
int winograd_tile(ConvPass pass, const ConvShape& shape);

// Whether filters that do not change are better kept transformed, which takes 16/9 or 4 times their
// bytes: where there are few tiles for each filter.
bool winograd_packs_filters(const ConvShape& shape, int m);

// For ConvPass::weight_grad. A prologue is applied to the rows that a block of tiles reads.
bool winograd_weight_grad_takes_prologue(const ConvShape& shape);
std::unique_ptr<AnyConvolution> make_winograd_weight_grad(const ConvShape& shape, int m,
                                                          bool prologue);

}  // namespace tessera
