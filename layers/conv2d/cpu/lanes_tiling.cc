#include "tessera/layers/conv2d/cpu/lanes_tiling.h"

#include <algorithm>
#include <cstring>

#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Input of a task: half of the smallest L2 met (512 KB).
constexpr int64_t kTaskInputBytes = 256 << 10;
// Products in about 5 microseconds of one core, about what waking a thread takes.
constexpr int64_t kLanesTaskWork = 1 << 18;
// Tasks wanted, so that up to 16 threads find work; they take them one by one.
constexpr int64_t kMinLanesTasks = 16;

// What load_outputs and store_outputs turn at once: `used` lines of `elements` values, `stride`
// apart from index `at` on in memory, and vectors from index `vector` on.
struct Turn {
  int64_t at, stride;
  int used;
  int64_t elements, vector;
};

// Calls turn(Turn) for the rows [first, last) of a task's outputs.
template <class F>
void for_turns(const GatherGeometry& g, const LanesTiling& t, const LanesTask& task, int64_t first,
               int64_t last, const F& turn) {
  const int64_t row = g.out_w * g.out_c, begin = (task.image * g.out_h + first) * row;
  if (t.lanes_are == LanesAre::images)
    return turn(Turn{begin, g.out_h * row, task.images, (last - first) * row, 0});
  for (int64_t y = 0; y < last - first; ++y)
    for (int64_t i = 0; i < t.vectors; ++i)
      turn(Turn{begin + y * row + i * t.lanes * g.out_c, g.out_c,
                static_cast<int>(std::min(t.lanes, g.out_w - i * t.lanes)), g.out_c,
                (y * t.vectors + i) * g.out_c * t.lanes});
}

}  // namespace

LanesTiling::LanesTiling(const GatherGeometry& g, LanesAre lanes_are, DType dtype, int lanes)
    : lanes_are(lanes_are), lanes(lanes) {
  if (lanes_are == LanesAre::images) {
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

LanesTask LanesTiling::task(const GatherGeometry& g, int64_t index) const {
  LanesTask t{};
  t.image = index / bands * images;
  t.images = static_cast<int>(std::min(images, g.n - t.image));
  t.first = index % bands * rows, t.last = std::min(t.first + rows, g.rows.count);
  t.first_row = std::clamp<int64_t>(t.first * g.in_step_h + g.rows.base, 0, g.in_h);
  const int64_t end = (t.last - 1) * g.in_step_h + g.rows.reach;
  t.rows = std::clamp<int64_t>(end, t.first_row, g.in_h) - t.first_row;
  return t;
}

template <class T>
void fill_block(const GatherGeometry& g, const LanesTiling& tiling, const LanesTask& task,
                const T* from, T* block) {
  const LanesMicrokernelsOf<T>& kernels = lanes_kernels<T>();
  const int64_t left = std::clamp<int64_t>(-g.base_w, 0, g.block_w);
  const int64_t end = std::clamp<int64_t>(g.in_w - g.base_w, left, g.block_w);
  if (tiling.lanes_are == LanesAre::columns)  // at once: the parts to clear are small
    std::memset(block, 0, task.rows * tiling.row * sizeof(T));
  for (int64_t r = 0; r < task.rows; ++r, block += tiling.row) {
    const int64_t row = task.image * g.in_h + task.first_row + r;
    const T* first = from + (row * g.in_w + g.base_w + left) * g.in_c;
    if (tiling.lanes_are == LanesAre::images) {
      std::memset(block, 0, left * tiling.column * sizeof(T));
      kernels.gather(first, g.in_h * g.in_w * g.in_c, task.images, (end - left) * g.in_c,
                     block + left * tiling.column, tiling.lanes);
      std::memset(block + end * tiling.column, 0, (g.block_w - end) * tiling.column * sizeof(T));
      continue;
    }
    for (int64_t j = left; j < end; j += tiling.lanes)
      kernels.gather(first + (j - left) * g.in_c, g.in_c,
                     static_cast<int>(std::min(tiling.lanes, end - j)), g.in_c, block + j,
                     tiling.channel);
  }
}

template <class T>
void load_outputs(const GatherGeometry& g, const LanesTiling& tiling, const LanesTask& task,
                  int64_t first, int64_t last, const T* from, T* vectors) {
  for_turns(g, tiling, task, first, last, [&](const Turn& t) {
    lanes_kernels<T>().gather(from + t.at, t.stride, t.used, t.elements, vectors + t.vector,
                              tiling.lanes);
  });
}

template <class T>
void store_outputs(const GatherGeometry& g, const LanesTiling& tiling, const LanesTask& task,
                   int64_t first, int64_t last, const T* vectors, T* to) {
  for_turns(g, tiling, task, first, last, [&](const Turn& t) {
    lanes_kernels<T>().scatter(vectors + t.vector, t.stride, t.used, t.elements, to + t.at);
  });
}

#define TESSERA_LANES_TILING(T)                                                                    \
  template void fill_block(const GatherGeometry&, const LanesTiling&, const LanesTask&, const T*,  \
                           T*);                                                                    \
  template void load_outputs(const GatherGeometry&, const LanesTiling&, const LanesTask&, int64_t, \
                             int64_t, const T*, T*);                                               \
  template void store_outputs(const GatherGeometry&, const LanesTiling&, const LanesTask&,         \
                              int64_t, int64_t, const T*, T*);
TESSERA_LANES_TILING(float)
TESSERA_LANES_TILING(double)

}  // namespace tessera
