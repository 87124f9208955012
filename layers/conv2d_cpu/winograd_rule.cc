#include <algorithm>
#include <initializer_list>

#include "tessera/layers/conv2d_cpu/winograd.h"
#include "tessera/layers/conv2d_cpu/winograd_tiling.h"

namespace tessera {
namespace {

// All costs are in multiplications of one channel with one filter, and were fitted to measurements
// of an AMD Zen 5 with AVX-512; what they decide is far from even on most shapes.

// A multiplication of the products, which are short, against one of the direct convolution.
constexpr double kProduct = 1.2;
// To transform one tile of a channel or a filter, to it or from it.
constexpr double kTransform = 350;
// To transform one position of a filter of one channel and keep it; of sums for a filter, from
// which its gradient is made.
constexpr double kFilterPosition = 15, kSumPosition = 5;
// Below so many channels or filters most of a vector is empty.
constexpr int64_t kLeast = 8;
// What must be gained.
constexpr double kGain = 0.85;
// The part of a convolution's cost from which on the transforms of its filters are kept.
constexpr double kKept = 0.1;

// Taps of a row or column of outputs that lie in the image: those that a direct convolution
// computes.
double taps(int64_t in, int64_t out, int64_t pad) {
  double all = 0;
  for (int64_t i = 0; i < out; ++i)
    for (int64_t u = 0; u < 3; ++u) all += i + u >= pad && i + u - pad < in;
  return all;
}

}  // namespace

bool winograd_applies(const ConvShape& s) {
  return s.kh == 3 && s.kw == 3 && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 &&
         s.dilation_w == 1 && s.groups == 1 && s.pad_h <= 2 && s.pad_w <= 2;
}

int winograd_tile(ConvPass pass, const ConvShape& s) {
  if (!winograd_applies(s) || s.c < kLeast || s.o < kLeast || s.pixels() == 0) return 0;
  const double pairs = static_cast<double>(s.c) * s.o;
  double least = kGain * static_cast<double>(s.n) * taps(s.h, s.out_h(), s.pad_h) *
                 taps(s.w, s.out_w(), s.pad_w) * pairs;
  int best = 0;
  const bool back = pass == ConvPass::input_grad;
  for (const int m : {4, 2}) {
    const TilePlane plane(s.n, back ? s.h : s.out_h(), back ? s.w : s.out_w(), m);
    const double positions = (m + 2) * (m + 2);
    const double tile = positions * (kProduct * pairs + kTransform / 36 * (s.c + s.o));
    const double once = pass == ConvPass::weight_grad ? kSumPosition : kFilterPosition;
    const double cost = static_cast<double>(plane.tiles()) * tile + positions * once * pairs;
    if (cost < least) least = cost, best = m;
  }
  return best;
}

bool winograd_packs_filters(const ConvShape& s, int m) {
  const double tiles = static_cast<double>(TilePlane(s.n, s.out_h(), s.out_w(), m).tiles());
  return kFilterPosition > kKept * (kFilterPosition + kProduct * tiles);
}

}  // namespace tessera
