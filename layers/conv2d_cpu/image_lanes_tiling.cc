#include "tessera/layers/conv2d_cpu/image_lanes_tiling.h"

#include <algorithm>
#include <cstring>

#include "tessera/layers/conv2d_cpu/image_lanes.h"
#include "tessera/layers/shared/integers.h"

namespace tessera {
namespace {

// Input of a task: half of the smallest L2 met (512 KB).
constexpr int64_t kBlockBytes = 256 << 10;
// Products in about 5 microseconds of one core, about what waking a thread takes.
constexpr int64_t kTaskWork = 1 << 18;
// Tasks wanted, so that up to 16 threads find work; they take them one by one.
constexpr int64_t kMinTasks = 16;

}  // namespace

ImageLanesTiling::ImageLanesTiling(const GatherGeometry& g, size_t element, int lanes)
    : lanes(lanes) {
  const int64_t groups = ceil_div(g.n, lanes), count = std::max<int64_t>(1, g.rows.count);
  const int64_t row =
      std::max<int64_t>(1, g.block_w * g.in_c * lanes) * static_cast<int64_t>(element);
  const int64_t halo = std::max<int64_t>(0, g.rows.reach - g.rows.base - g.in_step_h);
  const int64_t fit = std::max<int64_t>(1, (kBlockBytes / row - halo) / g.in_step_h);
  const int64_t work = g.shape.weights() * g.shape.pixels();
  const int64_t wanted = std::clamp<int64_t>(work / kTaskWork, 1, kMinTasks);
  bands = std::max(ceil_div(count, fit), ceil_div(wanted, std::max<int64_t>(1, groups)));
  rows = ceil_div(count, std::min(bands, count));
  bands = ceil_div(count, rows);
  tasks = groups * bands;
  block_rows =
      std::min(g.in_h, std::max<int64_t>(0, (rows - 1) * g.in_step_h + g.rows.reach - g.rows.base));
}

ImageLanesTask ImageLanesTiling::task(const GatherGeometry& g, int64_t index) const {
  ImageLanesTask t{};
  t.image = index / bands * lanes;
  t.images = static_cast<int>(std::min(lanes, g.n - t.image));
  t.first = index % bands * rows, t.last = std::min(t.first + rows, g.rows.count);
  t.first_row = std::clamp<int64_t>(t.first * g.in_step_h + g.rows.base, 0, g.in_h);
  const int64_t end = (t.last - 1) * g.in_step_h + g.rows.reach;
  t.rows = std::clamp<int64_t>(end, t.first_row, g.in_h) - t.first_row;
  return t;
}

template <class T>
void fill_image_lanes(const GatherGeometry& g, const ImageLanesTask& task, const T* from,
                      T* block) {
  const ImageLanesMicrokernelsOf<T>& kernels = image_lanes_kernels<T>();
  const int64_t pixel = g.in_c * kernels.lanes;
  const int64_t left = std::clamp<int64_t>(-g.base_w, 0, g.block_w);
  const int64_t end = std::clamp<int64_t>(g.in_w - g.base_w, left, g.block_w);
  for (int64_t r = 0; r < task.rows; ++r, block += g.block_w * pixel) {
    const int64_t row = task.image * g.in_h + task.first_row + r;
    std::memset(block, 0, left * pixel * sizeof(T));
    kernels.gather(from + (row * g.in_w + g.base_w + left) * g.in_c, g.in_h * g.in_w * g.in_c,
                   task.images, (end - left) * g.in_c, block + left * pixel);
    std::memset(block + end * pixel, 0, (g.block_w - end) * pixel * sizeof(T));
  }
}

template void fill_image_lanes(const GatherGeometry&, const ImageLanesTask&, const float*, float*);
template void fill_image_lanes(const GatherGeometry&, const ImageLanesTask&, const double*,
                               double*);

}  // namespace tessera
