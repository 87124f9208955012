#include "tessera/layers/conv2d_gather.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tessera/layers/conv2d_simd.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/layers/shared/integers.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

constexpr int64_t kBlockBytes = 256 << 10;  // input and output of a task: half of a small L2
constexpr int64_t kChunkBytes = 1280;    // summed index at once: a panel of 16 floats fills 20 KB
constexpr int64_t kColumnsBytes = 2048;  // output channels at once, so that their sums stay in L2
constexpr int64_t kFilterBytes = 128
                                 << 10;  // larger filters come from a slower cache: use them longer
constexpr int64_t kLongPixels = 96, kMinPixels = 24;
constexpr int64_t kTaskWork = 1 << 18, kMinTasks = 16;  // products worth waking a thread for
constexpr int64_t kPackWork = 1 << 15;                  // the same for packed elements

template <class T>
const GemmMicrokernelsOf<T>& microkernels() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(gemm_microkernels));
}

template <class T>
const DepthwiseMicrokernelsOf<T>& depthwise() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(depthwise_microkernels));
}

struct Extent {
  int64_t count = 0, base = 0, reach = 0;  // most outputs of a phase; input range of output q = 0
  bool inside = true;                      // no tap leaves the image
};

Extent extent(const GatherPlan& plan, bool vertical) {
  Extent e;
  bool any = false;
  const int64_t phases = !plan.backward ? 1 : vertical ? plan.out_step_h : plan.out_step_w;
  const int64_t step = vertical ? plan.in_step_h : plan.in_step_w;
  for (int64_t p = 0; p < phases; ++p) {
    GatherAxis axis = gather_axis(plan, vertical, vertical ? p * plan.out_step_w : p);
    e.count = std::max(e.count, axis.count);
    if (axis.taps == 0 || axis.count == 0) continue;
    const int64_t reach = axis.base + (axis.taps - 1) * axis.spacing + 1;
    e.base = any ? std::min(e.base, axis.base) : axis.base;
    e.reach = any ? std::max(e.reach, reach) : reach;
    any = true;
    const int64_t size = vertical ? plan.in_h : plan.in_w;
    if (axis.base < 0 || (axis.count - 1) * step + reach > size) e.inside = false;
  }
  return e;
}

// Cuts the output into tasks that fit the cache, of nearly equal size, enough of them to share.
void cut(GatherPlan& plan, const Extent& v, size_t element) {
  const int64_t size = static_cast<int64_t>(element), in_row = plan.block_w * plan.in_c * size;
  const int64_t out_row = plan.out_step_h * plan.out_w * plan.out_c * size;
  const int64_t halo = std::max<int64_t>(0, v.reach - v.base - plan.in_step_h) * in_row;
  const int64_t pixels_per_row = std::max<int64_t>(1, plan.out_step_h * plan.out_w);
  int64_t rows = (kBlockBytes - halo) / std::max<int64_t>(1, plan.in_step_h * in_row + out_row);
  const int64_t filters =
      plan.shape.kh * plan.shape.kw * plan.in_c / plan.shape.groups * plan.out_c;
  if (filters * size > kFilterBytes) rows = std::max(rows, ceil_div(kLongPixels, pixels_per_row));
  const int64_t work = filters * plan.n * plan.shape.out_h() * plan.shape.out_w();
  rows = std::min(rows, plan.n * v.count / std::clamp<int64_t>(work / kTaskWork, 1, kMinTasks));
  rows = std::max(rows, ceil_div(kMinPixels, pixels_per_row));
  if (rows > 48 && pixels_per_row == 1) rows = rows / 48 * 48;
  if (rows >= v.count) {
    const int64_t whole = std::max<int64_t>(1, rows / std::max<int64_t>(1, v.count));
    const int64_t tasks = ceil_div(ceil_div(plan.n, whole), 4) * 4;
    plan.images = ceil_div(std::max<int64_t>(1, plan.n), std::max<int64_t>(1, tasks));
    plan.rows = v.count;
  } else {
    plan.images = 1;
    plan.rows = pixels_per_row == 1 ? rows : ceil_div(v.count, ceil_div(v.count, rows));
  }
  plan.blocks_per_image = plan.rows ? ceil_div(v.count, plan.rows) : 1;
}

}  // namespace

GatherAxis gather_axis(const GatherPlan& plan, bool vertical, int64_t phase) {
  const ConvShape& s = plan.shape;
  const int64_t taps = vertical ? s.kh : s.kw, stride = vertical ? s.stride_h : s.stride_w;
  const int64_t pad = vertical ? s.pad_h : s.pad_w,
                dilation = vertical ? s.dilation_h : s.dilation_w;
  GatherAxis axis;
  if (!plan.backward) {
    axis.count = vertical ? plan.out_h : plan.out_w;
    axis.base = -pad, axis.spacing = dilation, axis.taps = taps;
    return axis;
  }
  // Output i = first + q * stride gathers y = (i + pad - u * dilation) / stride where that divides:
  // for every (stride / gcd)-th tap u from the first that does. Taken from the last tap to the
  // first, y grows by dilation / gcd.
  axis.first = vertical ? phase / s.stride_w : phase % s.stride_w;
  const int64_t size = vertical ? s.h : s.w;
  axis.count = axis.first < size ? (size - 1 - axis.first) / stride + 1 : 0;
  const int64_t gcd = std::gcd(dilation, stride), step = stride / gcd;
  axis.spacing = dilation / gcd;
  for (int64_t u = 0; u < std::min(taps, step); ++u) {
    if ((axis.first + pad - u * dilation) % stride != 0) continue;
    axis.taps = (taps - 1 - u) / step + 1;
    axis.first_tap = u + (axis.taps - 1) * step;
    axis.tap_step = -step;
    axis.base = (axis.first + pad - axis.first_tap * dilation) / stride;
  }
  return axis;
}

int64_t GatherPlan::tasks() const { return ceil_div(n, images) * blocks_per_image; }

GatherPlan plan_gather(const ConvShape& given, bool backward, size_t element) {
  GatherPlan plan{};
  ConvShape s = given;
  if (s.kh == 1 && s.kw == 1 && s.stride_h == 1 && s.stride_w == 1 && !s.pad_h && !s.pad_w) {
    s.h *= s.n * s.w, s.n = s.w = 1;  // pixels are independent: one long column
  }
  plan.shape = s, plan.backward = backward, plan.n = s.n;
  plan.in_h = s.h, plan.in_w = s.w, plan.in_c = s.c;
  plan.out_h = s.out_h(), plan.out_w = s.out_w(), plan.out_c = s.o;
  plan.in_step_h = s.stride_h, plan.in_step_w = s.stride_w;
  plan.out_step_h = plan.out_step_w = plan.phases = 1;
  if (backward) {
    std::swap(plan.in_h, plan.out_h), std::swap(plan.in_w, plan.out_w);
    std::swap(plan.in_c, plan.out_c);
    std::swap(plan.in_step_h, plan.out_step_h), std::swap(plan.in_step_w, plan.out_step_w);
    plan.phases = s.stride_h * s.stride_w;
  }
  plan.depthwise = s.groups > 1 && s.groups == s.c && s.groups == s.o;
  const int64_t spacing =
      backward ? s.dilation_w / std::gcd(s.dilation_w, s.stride_w) : s.dilation_w;
  plan.row_segments = spacing == 1 && s.groups == 1;

  const Extent v = extent(plan, true), h = extent(plan, false);
  plan.direct = v.inside && h.inside;
  plan.base_h = plan.direct ? 0 : v.base, plan.base_w = plan.direct ? 0 : h.base;
  plan.block_w = plan.direct
                     ? plan.in_w
                     : std::max<int64_t>(0, (h.count - 1) * plan.in_step_w + h.reach - h.base);
  cut(plan, v, element);
  plan.block_h = plan.direct
                     ? plan.in_h
                     : std::max<int64_t>(0, (plan.rows - 1) * plan.in_step_h + v.reach - v.base);
  return plan;
}

template <class T>
void copy_padded(const T* image, int64_t h, int64_t w, int64_t c, int64_t first_row,
                 int64_t first_column, int64_t rows, int64_t columns, T* block) {
  const int64_t left = std::clamp<int64_t>(-first_column, 0, columns);
  const int64_t end = std::clamp<int64_t>(w - first_column, left, columns);
  for (int64_t r = 0; r < rows; ++r, block += columns * c) {
    const int64_t row = first_row + r;
    if (row < 0 || row >= h) {
      std::memset(block, 0, columns * c * sizeof(T));
      continue;
    }
    std::memset(block, 0, left * c * sizeof(T));
    std::memcpy(block + left * c, image + (row * w + first_column + left) * c,
                (end - left) * c * sizeof(T));
    std::memset(block + end * c, 0, (columns - end) * c * sizeof(T));
  }
}

namespace {

struct Chunk {
  int64_t first_segment, segments, k;  // k: where its part of a filter panel begins
};

// A phase made ready: its packed filters, its pixels as offsets, its taps as segments.
template <class T>
struct Phase {
  GatherAxis v, h;
  int64_t k, chunk_count, group_stride;
  T* filters;        // [group][panel][k][panel's width]; depthwise: [tap][channel]
  int64_t* in_rows;  // of each pixel [row][image][column] of a full task, relative to the block
  int64_t* out_rows;
  int64_t* taps;  // offset of each tap
  Segment* segments;
  Chunk* chunks;
};

template <class T>
struct Ready {
  Phase<T>* phases;
  T* blocks;  // one per thread
  int64_t block_stride;
  size_t size;
};

// Lays out the scratch and, where there is some, fills in the pointers and constants.
template <class T>
Ready<T> lay_out(const GatherPlan& plan, int threads, void* scratch) {
  ScratchLayout layout(scratch);
  Ready<T> ready;
  ready.phases = layout.take<Phase<T>>(plan.phases);
  const int64_t groups = plan.depthwise ? 1 : plan.shape.groups;
  const int64_t columns =
      plan.depthwise ? plan.out_c : round_up(plan.out_c / groups, microkernels<T>().lanes);
  for (int64_t i = 0; i < plan.phases; ++i) {
    Phase<T> p;
    p.v = gather_axis(plan, true, i), p.h = gather_axis(plan, false, i);
    const int64_t taps = p.v.taps * p.h.taps;
    const int64_t pixels = plan.images * std::min(plan.rows, p.v.count) * p.h.count;
    p.k = taps * (plan.depthwise ? 1 : plan.in_c / groups);
    p.chunk_count = std::max<int64_t>(1, ceil_div(p.k * sizeof(T), kChunkBytes));
    p.group_stride = p.k * columns;
    p.filters = layout.take<T>(groups * p.group_stride);
    p.in_rows = layout.take<int64_t>(pixels), p.out_rows = layout.take<int64_t>(pixels);
    p.taps = layout.take<int64_t>(taps);
    p.segments = layout.take<Segment>(taps + p.chunk_count);
    p.chunks = layout.take<Chunk>(p.chunk_count);
    if (scratch) ready.phases[i] = p;
  }
  ready.block_stride = plan.direct ? 0 : ceil_div(plan.block_elements(), 16) * 16;
  ready.blocks = layout.take<T>(ready.block_stride * threads);
  ready.size = layout.size();
  return ready;
}

template <class T>
void fill_tables(const GatherPlan& plan, Phase<T>& p) {
  const int64_t row_length = plan.block_w * plan.in_c;
  int64_t at = 0;
  for (int64_t q = 0; q < std::min(plan.rows, p.v.count); ++q)
    for (int64_t image = 0; image < plan.images; ++image)
      for (int64_t x = 0; x < p.h.count; ++x, ++at) {
        int64_t row = image * plan.block_h + q * plan.in_step_h + p.v.base - plan.base_h;
        p.in_rows[at] =
            row * row_length + (x * plan.in_step_w + p.h.base - plan.base_w) * plan.in_c;
        row = image * plan.out_h + q * plan.out_step_h + p.v.first;
        p.out_rows[at] = (row * plan.out_w + x * plan.out_step_w + p.h.first) * plan.out_c;
      }
  for (int64_t t = 0; t < p.v.taps * p.h.taps; ++t)
    p.taps[t] = t / p.h.taps * p.v.spacing * row_length + t % p.h.taps * p.h.spacing * plan.in_c;

  // Runs of consecutive elements, cut where a chunk is full.
  const int64_t channels = plan.depthwise ? 1 : plan.in_c / plan.shape.groups;
  const int64_t per_run = plan.row_segments ? p.h.taps : 1, run = per_run * channels;
  int64_t segment = 0, k = 0;
  for (int64_t c = 0; c < p.chunk_count; ++c) {
    const int64_t end = p.k * (c + 1) / p.chunk_count;
    p.chunks[c] = {segment, 0, k};
    while (k < end) {
      const int64_t within = k % run, length = std::min(run - within, end - k);
      p.segments[segment++] = {p.taps[k / run * per_run] + within, length};
      k += length;
    }
    p.chunks[c].segments = segment - p.chunks[c].first_segment;
  }
}

// Packs panel `panel` (up to two vectors of output channels) of a group's filters.
template <class T>
void pack_panel(const GatherPlan& plan, const Phase<T>& p, int64_t group, int64_t panel,
                const T* w) {
  const ConvShape& s = plan.shape;
  const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
  const int64_t in_c = plan.in_c / s.groups, out_c = plan.out_c / s.groups;
  const int64_t first = panel * 2 * microkernel.lanes;
  const int64_t count = std::min<int64_t>(2 * microkernel.lanes, out_c - first);
  const int64_t width = round_up(count, microkernel.lanes), filter = s.kh * s.kw * (s.c / s.groups);
  T* to = p.filters + group * p.group_stride + first * p.k;
  if (!plan.backward) {
    microkernel.pack_transposed(w + (group * out_c + first) * filter, filter, p.k, count, width, to);
    return;
  }
  if (count < width) std::memset(to, 0, p.k * width * sizeof(T));
  for (int64_t t = 0; t < p.v.taps * p.h.taps; ++t, to += in_c * width) {
    const int64_t u = p.v.first_tap + t / p.h.taps * p.v.tap_step;
    const int64_t v = p.h.first_tap + t % p.h.taps * p.h.tap_step;
    const T* from = w + group * in_c * filter + (u * s.kw + v) * out_c + first;
    microkernel.copy_points(from, filter, in_c, count, to, width);
  }
}

template <class T>
void pack_depthwise(const GatherPlan& plan, const Phase<T>& p, const T* w) {
  const ConvShape& s = plan.shape;
  for (int64_t t = 0; t < p.k; ++t) {
    const int64_t u = p.v.first_tap + t / p.h.taps * p.v.tap_step;
    const int64_t v = p.h.first_tap + t % p.h.taps * p.h.tap_step;
    for (int64_t c = 0; c < s.c; ++c) p.filters[t * s.c + c] = w[c * s.kh * s.kw + u * s.kw + v];
  }
}

template <class T>
void prepare(ThreadPool& pool, const GatherPlan& plan, Ready<T>& ready, const T* w) {
  for (int64_t i = 0; i < plan.phases; ++i) {
    fill_tables(plan, ready.phases[i]);
    if (plan.depthwise) pack_depthwise(plan, ready.phases[i], w);
  }
  if (plan.depthwise) return;
  const int64_t groups = plan.shape.groups;
  const int64_t panels = ceil_div(plan.out_c / groups, 2 * microkernels<T>().lanes);
  const int64_t all = plan.phases * groups * panels;
  const int64_t elements = plan.shape.o * plan.shape.kh * plan.shape.kw * plan.shape.c / groups;
  const int64_t tasks = std::clamp<int64_t>(elements / kPackWork, 1, all);
  pool.parallel_for(tasks, [&](int64_t task) {
    for (int64_t i = all * task / tasks; i < all * (task + 1) / tasks; ++i)
      pack_panel(plan, ready.phases[i / (groups * panels)], i / panels % groups, i % panels, w);
  });
}

// Rows [first, last) of a task that gather the same rows of taps: those that lie in the image. The
// others would add zeros.
struct Band {
  int64_t first, last, first_tap, last_tap;
};
constexpr int kMaxBands = 12;

// The bands of a task from its row `row` of the phase on; returns how many.
int make_bands(const GatherPlan& plan, const GatherAxis& v, int64_t row, int64_t rows,
               Band* bands) {
  int count = 0;
  for (int64_t q = 0; q < rows; ++q) {
    const int64_t start = (row + q) * plan.in_step_h + v.base;
    Band band{q, q + 1, 0, v.taps};
    while (band.first_tap < band.last_tap && start + band.first_tap * v.spacing < 0)
      ++band.first_tap;
    while (band.first_tap < band.last_tap && start + (band.last_tap - 1) * v.spacing >= plan.in_h)
      --band.last_tap;
    Band* last = count ? &bands[count - 1] : nullptr;
    if (last && last->first_tap == band.first_tap && last->last_tap == band.last_tap) {
      last->last = band.last;
    } else if (count == kMaxBands) {  // adding zeros does no harm
      *last = {last->first, band.last, 0, v.taps};
    } else {
      bands[count++] = band;
    }
    if (plan.direct) {  // all taps lie in the image
      bands[0].last = rows;
      break;
    }
  }
  return count;
}

struct TaskRows {
  int64_t images;
  const Band* bands;
  int count;
};

// Calls run(first, count) for the pixels of rows [first_row, last_row), as the tables have them: in
// one piece, unless the task has fewer images than the tables.
template <class Run>
void for_pixels(const GatherPlan& plan, int64_t columns, int64_t images, int64_t first_row,
                int64_t last_row, Run run) {
  const int64_t row = plan.images * columns;
  if (images == plan.images) return run(first_row * row, (last_row - first_row) * row);
  for (int64_t q = first_row; q < last_row; ++q) run(q * row, images * columns);
}

// One panel of output channels over one chunk, for all bands.
template <class T>
void multiply_bands(const GatherPlan& plan, const Phase<T>& p, const TaskRows& rows, int64_t index,
                    GatherProduct<T> product) {
  const Chunk& chunk = p.chunks[index];
  const T* const panel = product.b;
  const int64_t per_tap = p.v.taps ? p.k / p.v.taps : 0;
  for (int i = 0; i < rows.count; ++i) {
    const Band& band = rows.bands[i];
    const int64_t begin = band.first_tap * per_tap, end = band.last_tap * per_tap;
    const Segment *first = p.segments + chunk.first_segment, *last = first + chunk.segments;
    int64_t k = chunk.k, chunk_end = index + 1 < p.chunk_count ? p.chunks[index + 1].k : p.k;
    for (; first < last && k < begin; ++first) k += first->length;
    for (; first < last && chunk_end > end; --last) chunk_end -= last[-1].length;
    // Without a tap in this chunk there is nothing to do; without any at all, zeros are written.
    if (first == last && (begin < end || index > 0)) continue;
    product.segments = first, product.segment_count = last - first;
    product.b = panel + (k - chunk.k) * product.b_stride;
    product.accumulate = chunk.k > begin;
    for_pixels(plan, p.h.count, rows.images, band.first, band.last,
               [&](int64_t pixel, int64_t count) {
                 product.a_rows = p.in_rows + pixel, product.c_rows = p.out_rows + pixel;
                 product.rows = count;
                 microkernels<T>().gather(product);
               });
  }
}

template <class T>
void multiply(const GatherPlan& plan, const Phase<T>& p, const TaskRows& rows, const T* in,
              T* out) {
  const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
  const int64_t groups = plan.shape.groups, out_c = plan.out_c / groups, in_c = plan.in_c / groups;
  const int64_t panel = 2 * microkernel.lanes;
  const int64_t together = kColumnsBytes / static_cast<int64_t>(sizeof(T));
  GatherProduct<T> product{};
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t o = 0; o < out_c; o += together)
      for (int64_t i = 0; i < p.chunk_count; ++i) {
        product.a = in + g * in_c;
        for (int64_t j = o; j < std::min(o + together, out_c); j += panel) {
          product.columns = std::min(panel, out_c - j);
          product.vectors = product.columns > microkernel.lanes ? 2 : 1;
          product.b_stride = product.vectors * microkernel.lanes;
          product.b = p.filters + g * p.group_stride + j * p.k + p.chunks[i].k * product.b_stride;
          product.c = out + g * out_c + j;
          // What comes next: the following panel, or the next chunk of the first one.
          product.next = j + panel < std::min(o + together, out_c)
                             ? product.b + p.k * panel
                             : p.filters + g * p.group_stride + o * p.k +
                                   p.chunks[(i + 1) % p.chunk_count].k * panel;
          multiply_bands(plan, p, rows, i, product);
        }
      }
}

template <class T>
void run_task(const GatherPlan& plan, const Ready<T>& ready, int64_t task, const T* in, T* out,
              T* block, const Epilogue<T>* epilogue) {
  const int64_t image = task / plan.blocks_per_image * plan.images;
  const int64_t row = task % plan.blocks_per_image * plan.rows;
  const int64_t images = std::min(plan.images, plan.n - image);
  const int64_t in_row = row * plan.in_step_h;
  if (plan.direct) {
    in += (image * plan.in_h + in_row) * plan.in_w * plan.in_c;
  } else {
    for (int64_t i = 0; i < images; ++i)
      copy_padded(in + (image + i) * plan.in_h * plan.in_w * plan.in_c, plan.in_h, plan.in_w,
                  plan.in_c, in_row + plan.base_h, plan.base_w, plan.block_h, plan.block_w,
                  block + i * plan.block_h * plan.block_w * plan.in_c);
    in = block;
  }
  const int64_t out_row = row * plan.out_step_h;
  T* to = out + (image * plan.out_h + out_row) * plan.out_w * plan.out_c;
  for (int64_t i = 0; i < plan.phases; ++i) {
    const Phase<T>& p = ready.phases[i];
    const int64_t rows = std::clamp<int64_t>(p.v.count - row, 0, plan.rows);
    if (images * rows * p.h.count == 0) continue;
    if (plan.depthwise) {
      for_pixels(plan, p.h.count, images, 0, rows, [&](int64_t pixel, int64_t count) {
        depthwise<T>().gather({in, p.in_rows + pixel, count, p.taps, p.k, p.filters, plan.in_c, to,
                               p.out_rows + pixel});
      });
    } else {
      Band bands[kMaxBands];
      const int count = make_bands(plan, p.v, row, rows, bands);
      multiply(plan, p, {images, bands, count}, in, to);
    }
  }
  if (epilogue && epilogue->apply) {
    const int64_t rows = std::min(plan.rows * plan.out_step_h, plan.out_h - out_row);
    epilogue->apply(epilogue->context, to, to - out, images * rows * plan.out_w * plan.out_c);
  }
}

}  // namespace

template <class T>
size_t gather_scratch(const GatherPlan& plan, int threads) {
  return lay_out<T>(plan, threads, nullptr).size;
}

template <class T>
void run_gather(ThreadPool& pool, const GatherPlan& plan, const T* in, const T* filters, T* out,
                void* scratch, const Epilogue<T>* epilogue) {
  if (plan.n * plan.out_h * plan.out_w * plan.out_c == 0) return;
  Ready<T> ready = lay_out<T>(plan, pool.size(), scratch);
  prepare(pool, plan, ready, filters);
  pool.parallel_for_thread(plan.tasks(), [&](int64_t task, int thread) {
    run_task(plan, ready, task, in, out, ready.blocks + thread * ready.block_stride, epilogue);
  });
}

#define TESSERA_GATHER(T)                                                                   \
  template size_t gather_scratch<T>(const GatherPlan&, int);                                \
  template void run_gather(ThreadPool&, const GatherPlan&, const T*, const T*, T*, void*,   \
                           const Epilogue<T>*);                                             \
  template void copy_padded(const T*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, \
                            int64_t, T*);
TESSERA_GATHER(float)
TESSERA_GATHER(double)

}  // namespace tessera
