#include "tessera/layers/conv2d/cpu/lanes_tiling.h"

#include <algorithm>
#include <limits>

#include "tessera/layers/conv2d/cpu/lanes.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Input of a task: half of the smallest known L2 (512 KB).
constexpr int64_t kTaskInputBytes = 256 << 10;
// Products that one core computes in about 5 microseconds, the time to wake a thread.
constexpr int64_t kLanesTaskWork = 1 << 18;
// Target number of tasks, enough for 16 threads; they take tasks one by one.
constexpr int64_t kMinLanesTasks = 16;

}  // namespace

LanesTiling::LanesTiling(const ConvGeometry& g, VectorAxis vector_axis, DType dtype)
    : vector_axis(vector_axis), lanes(64 / bytes_of(dtype)) {
  if (vector_axis == VectorAxis::batch) {
    images = lanes, vectors = g.out_w;
    channel = lanes, column = g.in_c * lanes, row = g.block_w * column;
    next_vector = g.in_step_w * column;
  } else {
    images = 1, vectors = ceil_div(g.out_w, lanes);
    const int64_t left = std::max<int64_t>(0, -g.base_w);
    channel = std::max(left + round_up(g.in_w, lanes),
                       vectors * lanes + std::max<int64_t>(0, g.columns.reach - g.base_w - 1));
    column = 1, row = g.in_c * channel;
    next_vector = lanes;
  }
  const int64_t groups = ceil_div(g.n, images), count = std::max<int64_t>(1, g.rows.count);
  const int64_t row_bytes = std::max<int64_t>(1, row) * bytes_of(dtype);
  const int64_t halo = std::max<int64_t>(0, g.rows.reach - g.rows.base - g.in_step_h);
  const int64_t fit = std::max<int64_t>(1, (kTaskInputBytes / row_bytes - halo) / g.in_step_h);
  const int64_t work = g.shape.weights() * g.shape.pixels();
  const int64_t wanted = std::clamp<int64_t>(work / kLanesTaskWork, 1, kMinLanesTasks);
  bands = std::max(ceil_div(count, fit), ceil_div(wanted, std::max<int64_t>(1, groups)));
  rows = ceil_div(count, std::min(bands, count));
  bands = ceil_div(count, rows);
  tasks = groups * bands;
  block_rows =
      std::min(g.in_h, std::max<int64_t>(0, (rows - 1) * g.in_step_h + g.rows.reach - g.rows.base));
}

LanesTask LanesTiling::task(const ConvGeometry& g, int64_t index) const {
  LanesTask t{};
  t.image = index / bands * images;
  t.images = static_cast<int>(std::min(images, g.n - t.image));
  t.first = index % bands * rows, t.last = std::min(t.first + rows, g.rows.count);
  t.first_row = std::clamp<int64_t>(t.first * g.in_step_h + g.rows.base, 0, g.in_h);
  const int64_t end = (t.last - 1) * g.in_step_h + g.rows.reach;
  t.rows = std::clamp<int64_t>(end, t.first_row, g.in_h) - t.first_row;
  return t;
}

namespace {

// Costs are in cycles per output pixel of a core that starts two vector products per cycle, fitted
// to measurements on an AMD Zen 5 with AVX-512 and with AVX2.

// Factors on the time of products in a tile of outputs and in a tile of sums; and the minimum sums
// of a tile for which products wait neither for loads nor for one another.
constexpr double kOutputs = 1.1, kSums = 1.4, kSumsAtOnce = 8;
// Cost to begin and end a pixel's panel of up to two vectors of output channels.
constexpr double kPanel = 10;
// Costs of a pixel's filter gradient: once, for a filter's dy, for a vector of x.
constexpr double kPixel = 6, kFilter = 0.3, kCopy = 2;
// Costs to transpose a vector and each of its lanes; a factor for input rows that two tasks read;
// and the extra cost of writes whole pages apart, which share few sets of L1.
constexpr double kTranspose = 3, kTransposeLane = 0.25, kHalo = 1.5, kPages = 9;
constexpr int64_t kPage = 4096;
// Lanes are used if their cost is below this fraction of the other algorithm's cost.
constexpr double kGain = 0.85;
// Maximum bytes of a task's input, of its sums, and of all tasks' sums.
constexpr int64_t kLanesBlockBytes = 512 << 10, kSumBytes = 256 << 10, kPartialBytes = 8 << 20;

template <class T>
bool fits(ConvPass pass, const ConvGeometry& g, const LanesTiling& tiling) {
  const int64_t size = sizeof(T);
  if (tiling.block_elements() * size > kLanesBlockBytes) return false;
  const int64_t sums = g.shape.weights() * size;
  return pass != ConvPass::weight_grad ||
         (sums * tiling.lanes <= kSumBytes && sums * tiling.tasks <= kPartialBytes);
}

// Returns the sums of a tile with lanes across columns; a row may fill few vectors.
double sums_of_tile(ConvPass pass, const ConvGeometry& g, const LanesTiling& tiling) {
  const ConvShape& s = g.shape;
  const int64_t taps = s.kw * (s.c / s.groups);
  const int64_t sums =
      pass == ConvPass::weight_grad
          ? std::min<int64_t>(taps, 5) * std::min<int64_t>(s.o / s.groups, 4)
          : std::min<int64_t>(tiling.vectors, 3) * std::min<int64_t>(g.out_c / s.groups, 8);
  return static_cast<double>(sums);
}

// Returns the cost of a pixel's products with lanes across its output channels; pairs are two
// products in one.
template <class T>
double channel_cost(ConvPass pass, const ConvGeometry& g, double depth, bool pairs) {
  const ConvShape& s = g.shape;
  const int64_t lanes = kWideLanes<T>, groups = s.groups;
  const double at_once = pairs ? 4 : 2;
  if (pass == ConvPass::weight_grad) {
    const int64_t columns = s.kw * (s.c / groups);
    const int64_t filters = round_up(s.o / groups, kMicroPanelRows);
    const double products =
        static_cast<double>(filters * ceil_div(s.kh * columns, lanes)) / at_once;
    const double copies = static_cast<double>(s.kh * ceil_div(columns, lanes));
    return static_cast<double>(groups) *
           (kOutputs * products + kCopy * copies + kFilter * static_cast<double>(filters) + kPixel);
  }
  const int64_t vectors = ceil_div(g.out_c / groups, lanes);
  return static_cast<double>(groups) * (depth * static_cast<double>(vectors) / at_once +
                                        kPanel * static_cast<double>(ceil_div(vectors, 2)));
}

// Returns the products of an output; a stride cuts those of the input gradient into phases.
double depth_of(const ConvGeometry& g) {
  const ConvShape& s = g.shape;
  return static_cast<double>(s.kh * s.kw * (g.in_c / s.groups)) /
         static_cast<double>(g.backward ? s.stride_h * s.stride_w : 1);
}

// Returns the cost of a pixel with lanes across images or columns.
template <class T>
double lanes_cost(ConvPass pass, const ConvGeometry& g, VectorAxis vector_axis) {
  constexpr int lanes = kWideLanes<T>;
  const LanesTiling tiling(g, vector_axis, dtype_of<T>);
  if ((vector_axis == VectorAxis::width && g.shape.stride_w != 1) || !fits<T>(pass, g, tiling))
    return std::numeric_limits<double>::infinity();
  const bool images = vector_axis == VectorAxis::batch, sums = pass == ConvPass::weight_grad;
  const double transpose = kTranspose + kTransposeLane * lanes;
  const bool pages =
      !sums && images && g.out_h * g.out_w * g.out_c * int64_t{sizeof(T)} % kPage == 0;
  const double pixels = static_cast<double>(g.n * g.out_h * g.out_w);
  const double in = static_cast<double>(g.n * g.in_h * g.in_w * g.in_c) / pixels;
  const double out = static_cast<double>(g.out_c);
  const double waits = images ? 1 : std::max(1.0, kSumsAtOnce / sums_of_tile(pass, g, tiling));
  const double products = waits * (sums ? kSums : kOutputs) * depth_of(g) * out / 2;
  const double vector = products + transpose * (kHalo * in + out) + (pages ? kPages * out : 0);
  // Some lanes are empty: in the last group of images, or at the end of each row.
  const double used = images ? static_cast<double>(g.n) / static_cast<double>(ceil_div(g.n, lanes))
                             : static_cast<double>(g.out_w) / static_cast<double>(tiling.vectors);
  return vector / used;
}

template <class T>
std::optional<VectorAxis> choose(ConvPass pass, const ConvShape& s, bool pairs) {
  const ConvGeometry g(s, pass == ConvPass::input_grad);
  if (s.pointwise() || s.depthwise() || g.n * g.out_h * g.out_w * s.weights() == 0)
    return std::nullopt;
  const double images = lanes_cost<T>(pass, g, VectorAxis::batch);
  const double columns = lanes_cost<T>(pass, g, VectorAxis::width);
  if (std::min(images, columns) >= kGain * channel_cost<T>(pass, g, depth_of(g), pairs))
    return std::nullopt;
  return images <= columns ? VectorAxis::batch : VectorAxis::width;
}

}  // namespace

std::optional<VectorAxis> vector_axis_for(const ConvRequest& r) {
  return visit_float(compute_type(r.dtype), [&]<class T>(T) {
    return choose<T>(r.pass, r.shape, r.dtype == DType::bf16);
  });
}

bool forward_is_direct(const ConvRequest& r) {
  return r.pass != ConvPass::input_grad && !vector_axis_for({ConvPass::forward, r.shape, r.dtype});
}

}  // namespace tessera
