#include <algorithm>

#include "tessera/layers/conv2d_cpu/image_lanes.h"
#include "tessera/layers/conv2d_cpu/image_lanes_tiling.h"
#include "tessera/layers/conv2d_cpu/microkernels.h"
#include "tessera/layers/shared/integers.h"

namespace tessera {
namespace {

// Costs are in cycles of a core that begins two products of vectors in each, for a pixel of the
// output; fitted to measurements of an AMD Zen 5 with AVX-512 and with AVX2.

// What products take beyond that in a tile of outputs, and in a tile of sums.
constexpr double kOutputs = 1.1, kSums = 1.4;
// To begin and end a pixel's panel of up to two vectors of output channels.
constexpr double kPanel = 10;
// For a pixel's gradient of the filters: what is done once, for a filter's dy, for a vector of x.
constexpr double kPixel = 6, kFilter = 0.3, kCopy = 2;
// To turn a vector for lanes, of the input with the rows that two tasks read; and what more it
// takes to write whole pages apart, which the first-level cache keeps in few places.
constexpr double kTurn = 3, kTurnLane = 0.25, kHalo = 1.5, kPages = 9;
constexpr int64_t kPage = 4096;
// What must be gained.
constexpr double kGain = 0.85;
// Of a task's input with one row of outputs, of its sums, and of all tasks' sums.
constexpr int64_t kBlockBytes = 512 << 10, kSumBytes = 256 << 10, kPartialBytes = 8 << 20;

template <class T>
bool fits(ConvPass pass, const GatherGeometry& g) {
  const int64_t size = sizeof(T), lanes = image_lanes_kernels<T>().lanes;
  const ImageLanesTiling tiling(g, size, static_cast<int>(lanes));
  if (tiling.block_elements(g) * size > kBlockBytes) return false;
  const int64_t sums = g.shape.weights() * size;
  return pass != ConvPass::weight_grad ||
         (sums * lanes <= kSumBytes && sums * tiling.tasks <= kPartialBytes);
}

// Of the products of a pixel with a lane for each of its output channels.
template <class T>
double channel_cost(ConvPass pass, const GatherGeometry& g, double depth) {
  const GemmMicrokernelsOf<T>& kernels = microkernels<T>();
  const ConvShape& s = g.shape;
  const int64_t lanes = kernels.lanes, groups = s.groups;
  if (pass == ConvPass::weight_grad) {
    const int64_t columns = s.kw * (s.c / groups),
                  filters = round_up(s.o / groups, kernels.row_tile);
    const double products = static_cast<double>(filters * ceil_div(s.kh * columns, lanes)) / 2;
    const double copies = static_cast<double>(s.kh * ceil_div(columns, lanes));
    return static_cast<double>(groups) *
           (kOutputs * products + kCopy * copies + kFilter * static_cast<double>(filters) + kPixel);
  }
  const int64_t vectors = ceil_div(g.out_c / groups, lanes);
  return static_cast<double>(groups) * (depth * static_cast<double>(vectors) / 2 +
                                        kPanel * static_cast<double>(ceil_div(vectors, 2)));
}

template <class T>
bool apply(ConvPass pass, const ConvShape& s) {
  const bool backward = pass == ConvPass::input_grad, sums = pass == ConvPass::weight_grad;
  const GatherGeometry g(s, backward);
  const int64_t pixels = g.n * g.out_h * g.out_w;
  if (s.pointwise() || s.depthwise() || pixels * s.weights() == 0 || !fits<T>(pass, g))
    return false;
  // Products of an output; a stride cuts those of the input's gradient into phases.
  const double depth = static_cast<double>(s.kh * s.kw * (g.in_c / s.groups)) /
                       static_cast<double>(backward ? s.stride_h * s.stride_w : 1);
  const double lanes = image_lanes_kernels<T>().lanes, turn = kTurn + kTurnLane * lanes;
  const bool pages = !sums && g.out_h * g.out_w * g.out_c * int64_t{sizeof(T)} % kPage == 0;
  const double in =
      static_cast<double>(g.n * g.in_h * g.in_w * g.in_c) / static_cast<double>(pixels);
  const double out = static_cast<double>(g.out_c);
  const double products = (sums ? kSums : kOutputs) * depth * out / 2;
  const double group = products + turn * (kHalo * in + out) + (pages ? kPages * out : 0);
  // Of the last group's lanes some are empty.
  const double groups = static_cast<double>(ceil_div(g.n, image_lanes_kernels<T>().lanes));
  return group * groups / static_cast<double>(g.n) < kGain * channel_cost<T>(pass, g, depth);
}

}  // namespace

bool image_lanes_apply(ConvPass pass, const ConvShape& shape, size_t element) {
  return element == sizeof(float) ? apply<float>(pass, shape) : apply<double>(pass, shape);
}

}  // namespace tessera
