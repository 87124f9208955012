#include <algorithm>
#include <initializer_list>

#include "tessera/layers/conv2d/cpu/winograd.h"
#include "tessera/layers/conv2d/cpu/winograd_tiling.h"

namespace tessera {
namespace {

// All costs are in multiplications of one channel with one filter, and were fitted to measurements
// of an AMD Zen 5 with AVX-512; what they decide is far from even on most shapes.

// A multiplication of the products, and of the sums that the gradient of filters is made from,
// against one of the direct convolution.
constexpr double kProduct = 1.0, kSum = 1.2;
// To transform one position of a tile of a channel or a filter, to it or from it; with stride 2
// many are copied, along one side or both.
constexpr double kTransform = 9.7, kTransformStride2 = 3.3;
// To transform one position of a filter of one channel and keep it; of sums for a filter, from
// which its gradient is made.
constexpr double kFilterPosition = 12, kSumPosition = 5;
// Below so many channels or filters most of a vector is empty.
constexpr int64_t kLeast = 8;
// What must be gained.
constexpr double kWinogradGain = 0.85;
// The part of a convolution's cost from which on the transforms of its filters are kept.
constexpr double kKept = 0.1;

// Taps of a row or column of outputs that lie in the image: those that a direct convolution
// computes.
double taps(int64_t in, int64_t out, int64_t stride, int64_t pad) {
  double all = 0;
  for (int64_t i = 0; i < out; ++i)
    for (int64_t u = 0; u < 3; ++u) all += i * stride + u >= pad && i * stride + u - pad < in;
  return all;
}

// Whether F(m x m, 3x3) computes it.
bool applies(const ConvShape& s, int m) {
  const bool plain = s.kh == 3 && s.kw == 3 && s.dilation_h == 1 && s.dilation_w == 1 &&
                     s.groups == 1 && s.stride_h == s.stride_w;
  if (s.stride_h == 2) return plain && m == 4 && s.pad_h == 1 && s.pad_w == 1;
  return plain && s.stride_h == 1 && s.pad_h <= 2 && s.pad_w <= 2;
}

}  // namespace

int winograd_tile(ConvPass pass, const ConvShape& s) {
  if (!applies(s, 4) || s.c < kLeast || s.o < kLeast || s.pixels() == 0) return 0;
  const double pairs = static_cast<double>(s.c) * s.o;
  double least = kWinogradGain * static_cast<double>(s.n) *
                 taps(s.h, s.out_h(), s.stride_h, s.pad_h) *
                 taps(s.w, s.out_w(), s.stride_w, s.pad_w) * pairs;
  int best = 0;
  const bool sums = pass == ConvPass::weight_grad;
  const double transform = s.stride_h == 2 ? kTransformStride2 : kTransform;
  const double tile = (sums ? kSum : kProduct) * pairs + transform * static_cast<double>(s.c + s.o);
  const double once = (sums ? kSumPosition : kFilterPosition) * pairs;
  for (const int m : {4, 2}) {
    if (!applies(s, m)) continue;
    const WinogradTransforms& transforms = winograd_transforms(s, m);
    const auto tiles = static_cast<double>(tile_plane(s, transforms, pass).tiles());
    const double cost = tiles * transforms.positions * tile + transforms.filter_positions * once;
    if (cost < least) least = cost, best = m;
  }
  return best;
}

bool winograd_packs_filters(const ConvShape& s, int m) {
  const WinogradTransforms& transforms = winograd_transforms(s, m);
  const auto tiles = static_cast<double>(tile_plane(s, transforms, ConvPass::forward).tiles());
  const double once = kFilterPosition * transforms.filter_positions;
  return once > kKept * (once + kProduct * tiles * transforms.positions);
}

}  // namespace tessera
