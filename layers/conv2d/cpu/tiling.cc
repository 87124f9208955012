#include "tessera/layers/conv2d/cpu/tiling.h"

#include <algorithm>

#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Input and output of a task: half of the smallest L2 met (512 KB); the filters use the rest.
constexpr int64_t kBlockBytes = 256 << 10;
// Filters larger than this do not stay in L2 beside a block, so that each task reads them from a
// slower cache: it then has kLongPixels pixels or more to use them for.
constexpr int64_t kFilterBytes = 128 << 10;
constexpr int64_t kLongPixels = 96;
// Four register tiles of 6 rows, three of 8: with fewer pixels the last, partly empty one shows.
constexpr int64_t kMinPixels = 24;
// A pointwise convolution's column is cut into multiples of both 6 and 8 rows.
constexpr int64_t kWholeTiles = 48;
// Products in about 5 microseconds of one core (50 billion a second), about what waking a thread
// takes.
constexpr int64_t kTaskWork = 1 << 18;
// Tasks wanted, so that up to 16 threads find work; they take them one by one.
constexpr int64_t kMinTasks = 16;
// A panel of packed filters, 16 floats wide, is 20 KB for 1280 bytes of the summed index: it stays
// in 32 KB of L1 beside the rows of input that run past it.
constexpr int64_t kChunkBytes = 1280;
// Sums of a task for so many output channels stay in L2 from one chunk to the next.
constexpr int64_t kColumnsBytes = 2048;
// Elements packed in about 10 microseconds of one core (3 billion a second).
constexpr int64_t kPackWork = 1 << 15;

}  // namespace

GatherTiling::GatherTiling(const GatherGeometry& g, DType dtype) {
  const int64_t size = bytes_of(dtype), count = g.rows.count;
  const int64_t in_row = g.block_w * g.in_c * size;
  const int64_t out_row = g.out_step_h * g.out_w * g.out_c * size;
  const int64_t halo = std::max<int64_t>(0, g.rows.reach - g.rows.base - g.in_step_h) * in_row;
  const int64_t pixels_per_row = std::max<int64_t>(1, g.out_step_h * g.out_w);

  // As many phase rows as fit the cache, but enough pixels to use the filters and enough tasks.
  int64_t wanted = (kBlockBytes - halo) / std::max<int64_t>(1, g.in_step_h * in_row + out_row);
  const int64_t filters = g.shape.kh * g.shape.kw * g.in_c / g.shape.groups * g.out_c;
  if (filters * size > kFilterBytes)
    wanted = std::max(wanted, ceil_div(kLongPixels, pixels_per_row));
  const int64_t work = filters * g.shape.pixels();
  wanted = std::min(wanted, g.n * count / std::clamp<int64_t>(work / kTaskWork, 1, kMinTasks));
  wanted = std::max(wanted, ceil_div(kMinPixels, pixels_per_row));
  if (wanted > kWholeTiles && pixels_per_row == 1) wanted = wanted / kWholeTiles * kWholeTiles;

  // Of nearly equal size: whole images in a multiple of four tasks, or rows of one image.
  if (wanted >= count) {
    const int64_t whole = std::max<int64_t>(1, wanted / std::max<int64_t>(1, count));
    const int64_t parts = ceil_div(ceil_div(g.n, whole), 4) * 4;
    images = ceil_div(std::max<int64_t>(1, g.n), std::max<int64_t>(1, parts));
    rows = count;
  } else {
    images = 1;
    rows = pixels_per_row == 1 ? wanted : ceil_div(count, ceil_div(count, wanted));
  }
  blocks_per_image = rows ? ceil_div(count, rows) : 1;
  tasks = ceil_div(g.n, images) * blocks_per_image;
  block_h = g.block_rows(rows);
}

int64_t chunk_count(int64_t depth, DType dtype) {
  return std::max<int64_t>(1, ceil_div(depth * bytes_of(dtype), kChunkBytes));
}

int64_t columns_together(DType dtype) { return kColumnsBytes / bytes_of(dtype); }

int64_t packing_tasks(int64_t elements, int64_t most) {
  return std::clamp<int64_t>(elements / kPackWork, 1, most);
}

}  // namespace tessera
