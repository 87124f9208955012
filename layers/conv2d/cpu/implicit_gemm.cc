// The direct convolution and its input gradient as an implicit GEMM: every task gathers its pixels'
// patches, in place or from a padded copy of a few rows, and multiplies them by packed filters. The
// matrix of all patches never exists. If there is a prologue, every task copies its input
// (geometry.h), so that the prologue can compute the copy.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/depthwise_simd.h"
#include "tessera/layers/conv2d/cpu/geometry.h"
#include "tessera/layers/conv2d/cpu/lanes.h"
#include "tessera/layers/conv2d/cpu/weight_grad.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Bytes of the summed index that are multiplied at once, so that a panel of packed filters comes
// from L1, or from L2 while tiles are multiplied. They are the same for all instruction sets, as
// the order of a sum is. Of float32, with AVX-512, two panels of 32 columns are 48 KB (chosen by
// measuring on 48 KB of L1), of bfloat16 with VDPBF16PS 80; of others one is 20 or 40.
template <class T>
constexpr int64_t kSumBytesAtOnce = std::is_same_v<T, float> ? 768 : 1280;
// A task's sums for this many bytes of output channels stay in L2 from one chunk to the next.
constexpr int64_t kColumnsBytes = 2048;
// Bytes of a result above which a residual, which is as large, is not in L2 any more.
constexpr int64_t kCachedBytes = 4 << 20;
// Elements that one core packs in about 10 microseconds (3 billion a second).
constexpr int64_t kPackWork = 1 << 15;

// Filters that stay in L2 from one call of run_rows() to the next.
constexpr int64_t kChainFilterBytes = 256 << 10;

// Every piece of scratch begins on a cache line.
template <class T>
int64_t whole_lines(int64_t elements) {
  return round_up(elements, 64 / static_cast<int64_t>(sizeof(T)));
}

// Rows of a task or columns of an image, [first, last), that gather the same taps: those in the
// image. Other taps would add zeros.
struct Band {
  int64_t first, last;
  ConvAxis::Taps taps;
};
// A 3x3 filter has 3 bands; one of 11 rows, dilated by any factor, has 11. More bands are joined.
constexpr int kMaxBands = 12;
// Images whose pixels fill a register tile.
constexpr int64_t kBandImages = 8;

// Writes the bands of `count` rows or columns, of which the first reads from `start` on, each other
// one `step` further, in images of `size`; returns their number.
int make_bands(const ConvAxis& axis, int64_t start, int64_t step, int64_t count, int64_t size,
               Band* bands) {
  int made = 0;
  for (int64_t q = 0; q < count; ++q, start += step) {
    const Band band{q, q + 1, axis.inside(start, size)};
    Band* last = made ? &bands[made - 1] : nullptr;
    if (last && last->taps == band.taps)
      last->last = band.last;
    else if (made == kMaxBands)  // adding zeros does no harm
      *last = {last->first, band.last, {0, axis.taps}};
    else
      bands[made++] = band;
  }
  return made;
}

// One phase's pixels as offsets and its taps as segments. A step is kDepthStep<T> elements of a
// segment; its last step may be fewer.
struct Phase : ConvPhase {
  explicit Phase(const ConvPhase& axes) : ConvPhase(axes) {}

  int64_t depth = 0;             // length of a sum
  int64_t steps = 0;             // those of all segments
  int64_t group_stride = 0;      // packed filters: [group][panel][step][panel's width][element]
  int64_t filters = 0;           // start of the packed filters; depthwise: [tap][channel]
  std::vector<Band> columns;     // bands of columns
  std::vector<int64_t> in_rows;  // offsets of pixels [row][band][image][column] in the task's block
  std::vector<int64_t> out_rows;
  std::vector<int64_t> tap_offsets;
  int64_t run = 0;                             // consecutive elements that segments are cut from
  std::vector<std::vector<Segment>> segments;  // a list for each band of columns
  std::vector<int64_t> chunks;                 // starts in a filter panel, in steps; their end
};

// Cuts the columns into bands if that saves many taps of enough pixels.
void fill_columns(const ConvGeometry& g, int64_t images, Phase& p) {
  Band bands[kMaxBands] = {{0, p.h.count, {0, p.h.taps}}};
  const bool cuts = g.few_taps && images >= kBandImages && p.taps() * p.h.count > 0;
  const int count = cuts ? make_bands(p.h, p.h.base, g.in_step_w, p.h.count, g.in_w, bands) : 1;
  p.columns.assign(bands, bands + count);
}

// Fills in the offsets of the taps, and of the pixels of `rows` rows, those of a task or more.
void fill_offsets(const ConvGeometry& g, const ImplicitGemmTiling& tiling, int64_t rows, Phase& p) {
  const int64_t row_length = g.block_w * g.in_c;
  rows = std::min(rows, p.v.count);
  const size_t pixels = rows * tiling.images * p.h.count;
  p.in_rows.reserve(pixels), p.out_rows.reserve(pixels);
  for (int64_t q = 0; q < rows; ++q)
    for (const Band& columns : p.columns)
      for (int64_t image = 0; image < tiling.images; ++image)
        for (int64_t x = columns.first; x < columns.last; ++x) {
          int64_t row = image * tiling.block_h + q * g.in_step_h + p.v.base - g.base_h;
          p.in_rows.push_back(row * row_length + (x * g.in_step_w + p.h.base - g.base_w) * g.in_c);
          row = image * g.out_h + q * g.out_step_h + p.v.first;
          p.out_rows.push_back((row * g.out_w + x * g.out_step_w + p.h.first) * g.out_c);
        }
  for (int64_t t = 0; t < p.taps(); ++t)
    p.tap_offsets.push_back(t / p.h.taps * p.v.spacing * row_length +
                            t % p.h.taps * p.h.spacing * g.in_c);
}

// Fills in runs of consecutive elements, cut at the ends of chunks.
template <class T>
void fill_segments(const ConvGeometry& g, Phase& p) {
  constexpr int64_t K = kDepthStep<T>;
  const int64_t channels = g.in_c / g.shape.groups, tap_row = p.h.taps * channels;
  const int64_t size = sizeof(T);
  p.segments.resize(p.columns.size());
  const int64_t count = std::max<int64_t>(1, ceil_div(p.depth * size, kSumBytesAtOnce<T>));
  int64_t k = 0, steps = 0;
  for (int64_t c = 0; c < count; ++c) {
    int64_t end = p.depth * (c + 1) / count;
    if constexpr (K != 1)
      if (end < p.depth) end += end % p.run % K;  // between two steps
    p.chunks.push_back(steps);
    while (k < end) {
      const int64_t within = k % p.run, length = std::min(p.run - within, end - k);
      const int64_t offset = p.tap_offsets[k / p.run * (p.run / channels)] + within;
      for (size_t i = 0; i < p.columns.size(); ++i) {
        const auto [first_tap, last_tap] = p.columns[i].taps;
        const int64_t row = k / tap_row * tap_row - k,
                      first = std::clamp<int64_t>(row + first_tap * channels, 0, length),
                      last = std::clamp<int64_t>(row + last_tap * channels, 0, length);
        if (first < last)
          p.segments[i].push_back({offset + first, last - first, steps + first / K});
      }
      k += length, steps += ceil_div(length, K);
    }
  }
  p.chunks.push_back(steps);
}

struct TaskRows {
  int64_t images;
  const Band* bands;
  int count;
};

template <class T>
class ImplicitGemm final : public Convolution<T> {
  using Sum = Computed<T>;

 public:
  ImplicitGemm(const ConvRequest& request, ConvVariant form)
      : geometry_(request.shape, request.pass == ConvPass::input_grad, form.prologue),
        tiling_(geometry_, request.dtype),
        packed_(form.packed),
        in_ranges_(form.in_ranges) {
    const ConvGeometry& g = geometry_;
    const bool depthwise = g.shape.depthwise();
    // The filters of the input gradient are packed tap by tap, so pairs do not go from tap to tap.
    const bool joined =
        g.joins_taps && !(g.backward && g.in_c / g.shape.groups % kDepthStep<T> != 0);
    for (int64_t i = 0; i < g.phases; ++i) {
      Phase p(g.phase(i));
      p.depth = g.depth(i);
      p.run = (joined ? p.h.taps : 1) * (g.in_c / g.shape.groups);
      p.steps =
          depthwise || p.run == 0 ? p.depth : p.depth / p.run * ceil_div(p.run, kDepthStep<T>);
      p.group_stride = depthwise ? p.steps * g.out_c
                                 : p.steps * kDepthStep<T> *
                                       round_up(g.out_c / g.shape.groups, microkernels<T>().lanes);
      p.filters = filters_;
      filters_ += whole_lines<T>(p.group_stride * (depthwise ? 1 : g.shape.groups));
      phases_.push_back(std::move(p));
    }
  }

  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }

  void prepare() override {
    for (Phase& p : phases_) {
      fill_columns(geometry_, geometry_.in_c % kDepthStep<T> == 0 ? tiling_.images : 1, p);
      fill_offsets(geometry_, tiling_,
                   geometry_.shape.pointwise() ? std::max(tiling_.rows, Convolution<T>::kMaxPixels)
                                               : tiling_.rows,
                   p);
      if (!geometry_.shape.depthwise()) fill_segments<T>(geometry_, p);
    }
  }

  void run(ThreadPool& pool, const T* in, const T* filters, Sum* out, void* scratch,
           const ConvHooks<T>& hooks) const override {
    if (geometry_.n * geometry_.out_h * geometry_.out_w * geometry_.out_c == 0) return;
    const Scratch all = lay_out(pool.size(), scratch);
    if (!packed_) pack(pool, filters, all.filters);
    const T* packed = packed_ ? filters : all.filters;
    if (tiling_.by_channels) return run_by_channels(pool, in, packed, out, all, hooks);
    pool.parallel_for_thread(tiling_.tasks, [&](int64_t task, int thread) {
      Scratch own = all;
      own.blocks += thread * block_elements(), own.result += thread * result_elements();
      run_task(task, in, packed, out, own, hooks);
    });
  }

  bool applies(const BiasActivation<T>& activation) const override {
    return activation.is_set() && microkernels<T>().activates && !geometry_.shape.depthwise();
  }

  void run_rows(const ConvRows<T>& pixels) const override {
    multiply_phases(0, pixels.count, 1,
                    {pixels.in[0], pixels.filters, pixels.out, pixels.activation,
                     pixels.reads_memory, pixels.writes_memory && result_is_large()},
                    0, geometry_.out_c);
  }

  int64_t packed_elements() const override { return filters_; }

  void pack(ThreadPool& pool, const T* w, T* packed) const override {
    const ConvShape& s = geometry_.shape;
    if (s.depthwise()) {
      for (const Phase& p : phases_) pack_depthwise(s, p, w, packed + p.filters);
      return;
    }
    const int64_t panels = ceil_div(geometry_.out_c / s.groups, 2 * microkernels<T>().lanes);
    const int64_t all = geometry_.phases * s.groups * panels;
    const int64_t tasks = std::clamp<int64_t>(s.weights() / kPackWork, 1, all);
    pool.parallel_for(tasks, [&](int64_t task) {
      for (int64_t i = all * task / tasks; i < all * (task + 1) / tasks; ++i)
        pack_panel(phases_[i / (s.groups * panels)], i / panels % s.groups, i % panels, w, packed);
    });
  }

 private:
  struct Scratch {
    T* filters;   // packed, phase by phase
    T* blocks;    // the input of a task, for each thread that runs one
    Sum* result;  // the result of a task, likewise
    size_t size;
  };

  // The operands of some rows; `after` is that of the elements from `out` on.
  struct Operands {
    const T* in;
    const T* packed;
    Sum* out;
    BiasActivation<T> after;
    bool fetch_in, fetch_after;  // from memory, before they are used
  };

  bool result_is_large() const {
    const ConvGeometry& g = geometry_;
    return g.n * g.out_h * g.out_w * g.out_c * static_cast<int64_t>(sizeof(T)) > kCachedBytes;
  }

  Scratch lay_out(int threads, void* base) const {
    if (tiling_.by_channels) threads = static_cast<int>(tiling_.tasks);  // those of tasks
    ScratchLayout layout(base);
    Scratch s{};
    s.filters = layout.take<T>(packed_ ? 0 : filters_);
    s.blocks = layout.take<T>(block_elements() * threads);
    s.result = layout.take<Sum>(result_elements() * threads);
    s.size = layout.size();
    return s;
  }

  int64_t block_elements() const {
    return geometry_.direct ? 0 : whole_lines<T>(tiling_.block_elements(geometry_));
  }
  int64_t result_elements() const {
    return in_ranges_ ? whole_lines<Sum>(tiling_.result_elements(geometry_)) : 0;
  }

  // Packs panel `panel` (up to two vectors of output channels) of a group's filters.
  void pack_panel(const Phase& p, int64_t group, int64_t panel, const T* w, T* packed) const {
    const ConvGeometry& g = geometry_;
    const ConvShape& s = g.shape;
    const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
    const int64_t in_c = g.in_c / s.groups, out_c = g.out_c / s.groups;
    const int64_t first = panel * 2 * microkernel.lanes;
    const int64_t count = std::min<int64_t>(2 * microkernel.lanes, out_c - first);
    const int64_t width = round_up(count, microkernel.lanes),
                  filter = s.kh * s.kw * (s.c / s.groups);
    const int64_t row = width * kDepthStep<T>;  // elements of a step
    T* to = packed + p.filters + group * p.group_stride + first * p.steps * kDepthStep<T>;
    if (!g.backward) {
      const T* from = w + (group * out_c + first) * filter;
      const int64_t run = kDepthStep<T> > 1 ? p.run : p.depth;  // steps end with runs
      for (int64_t k = 0; k < p.depth; k += run, to += ceil_div(run, kDepthStep<T>) * row)
        microkernel.pack_transposed(from + k, filter, run, count, width, to);
      return;
    }
    if (count < width) std::memset(to, 0, p.steps * row * sizeof(T));
    for (int64_t t = 0; t < p.taps(); ++t, to += ceil_div(in_c, kDepthStep<T>) * row) {
      const T* from = w + group * in_c * filter + p.filter_tap(t, s.kw) * out_c + first;
      microkernel.copy_points(from, filter, in_c, count, to, row);
    }
  }

  // Computes one panel of output channels over one chunk, for all bands.
  void multiply_bands(const Phase& p, const TaskRows& rows, int64_t index,
                      ImplicitGemmProduct<T> product) const {
    const BiasActivation<T> after = product.after;
    const int64_t start = p.chunks[index], chunk_end = p.chunks[index + 1];
    const T *const panel = product.b, *const next = product.next;
    const auto height = [](const Band& band) { return band.last - band.first; };
    const Band* highest = std::ranges::max_element(rows.bands, rows.bands + rows.count, {}, height);
    const int64_t per_tap = p.v.taps ? p.steps / p.v.taps : 0;
    const ConvAxis::Taps all_taps{0, p.v.taps};
    for (const Band& band : std::span(rows.bands, rows.count))
      for (size_t i = 0; i < p.columns.size(); ++i) {
        product.next = &band == highest && i == 0 ? next : nullptr;
        const auto& segments = p.segments[i];
        const auto from = [&](int64_t k) {
          return std::ranges::lower_bound(segments, k, {}, &Segment::k);
        };
        auto all = segments.begin(), all_end = segments.end(), first = all, last = all_end;
        if (band.taps != all_taps)
          all = from(band.taps.first * per_tap), all_end = from(band.taps.last * per_tap);
        if (p.chunks.size() > 2) first = from(start), last = from(chunk_end);
        first = std::max(first, all), last = std::min(last, all_end);
        // Skip bands without taps in this chunk. Those without any taps still get zeros.
        if (first >= last && (all < all_end || index > 0)) continue;
        product.segment_count = std::max<int64_t>(0, last - first);
        if (product.segment_count > 0) {
          product.segments = &*first;
          product.b = panel + (first->k - start) * product.b_stride;
        }
        product.accumulate = first > all && all < all_end;
        product.after = last >= all_end || all >= all_end ? after : BiasActivation<T>();
        for_pixels(p, p.columns[i], rows.images, band.first, band.last,
                   [&](int64_t pixel, int64_t count) {
                     product.a_rows = p.in_rows.data() + pixel;
                     product.c_rows = p.out_rows.data() + pixel;
                     product.rows = count;
                     microkernels<T>().gather(product);
                   });
      }
  }

  // Computes channels [begin, end) of each group.
  void multiply(const Phase& p, const TaskRows& rows, const Operands& own, int64_t begin,
                int64_t end) const {
    const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
    const int64_t groups = geometry_.shape.groups;
    const int64_t out_c = geometry_.out_c / groups, in_c = geometry_.in_c / groups;
    const int64_t panel = 2 * microkernel.lanes;
    const int64_t columns_per_block = kColumnsBytes / static_cast<int64_t>(sizeof(Sum)),
                  chunks = std::ssize(p.chunks) - 1;
    ImplicitGemmProduct<T> product{};
    product.fetch_after = own.fetch_after;
    for (int64_t g = 0; g < groups; ++g) {
      const T* filters = own.packed + p.filters + g * p.group_stride;
      const auto panel_at = [&](int64_t j, int64_t chunk, int64_t width) {
        return filters + (j * p.steps + p.chunks[chunk] * width) * kDepthStep<T>;
      };
      for (int64_t o = begin; o < end; o += columns_per_block) {
        const int64_t block_end = std::min(o + columns_per_block, end);
        for (int64_t i = 0; i < chunks; ++i) {
          product.a = own.in + g * in_c;
          for (int64_t j = o; j < block_end; j += product.columns) {
            const bool two = microkernel.gathers_panels && j + 2 * panel <= block_end;
            product.columns = two ? 2 * panel : std::min(panel, block_end - j);
            product.vectors = two ? 4 : product.columns > microkernel.lanes ? 2 : 1;
            const int64_t width = std::min(2, product.vectors) * microkernel.lanes;
            product.b_stride = width * kDepthStep<T>;
            product.b = panel_at(j, i, width), product.b_panel = panel * p.steps * kDepthStep<T>;
            product.c = own.out + g * out_c + j;
            product.after = own.after.from(g * out_c + j, g * out_c + j);
            const int64_t following = j + product.columns;
            if (!tiling_.filters_stay)
              product.next = following < block_end ? panel_at(following, i, panel)
                             : i + 1 < chunks
                                 ? panel_at(o, i + 1, panel)
                                 : panel_at(block_end < end ? block_end : begin, 0, panel);
            // A single tap reads each input once, from memory.
            product.fetch_rows = own.fetch_in && geometry_.direct && p.taps() == 1 && j == begin;
            multiply_bands(p, rows, i, product);
          }
        }
      }
    }
  }

  // Copies input rows [row, row + count) of the task rows of an image, which are block_w wide.
  void copy_rows(const ConvHooks<T>& hooks, const T* in, int64_t image, int64_t row, int64_t count,
                 T* to) const {
    const ConvGeometry& g = geometry_;
    const PaddedPart part{g.in_h, g.in_w, g.in_c, row + g.base_h, g.base_w, count, g.block_w};
    copy_padded(part, to, [&](T* run, int64_t at, int64_t elements) {
      const int64_t first = image * g.in_h * g.in_w * g.in_c + at;
      if (hooks.prologue.read)
        hooks.prologue(run, first, elements);
      else
        std::memcpy(run, in + first, elements * sizeof(T));
    });
  }

  // Returns the input rows of a task, from `row` of `image` on: in place, or copied to `block`.
  const T* input_of(const ConvHooks<T>& hooks, const T* in, int64_t image, int64_t images,
                    int64_t row, T* block) const {
    const ConvGeometry& g = geometry_;
    if (g.direct) return in + (image * g.in_h + row) * g.in_w * g.in_c;
    for (int64_t i = 0; i < images; ++i)
      copy_rows(hooks, in, image + i, row, tiling_.block_h,
                block + i * tiling_.block_h * g.block_w * g.in_c);
    return block;
  }

  // Computes channels [begin, end) of each group, in rows [row, row + rows_of_task) of the phases.
  void multiply_phases(int64_t row, int64_t rows_of_task, int64_t images, const Operands& own,
                       int64_t begin, int64_t end) const {
    const ConvGeometry& g = geometry_;
    for (const Phase& p : phases_) {
      const int64_t rows = std::clamp<int64_t>(p.v.count - row, 0, rows_of_task);
      if (images * rows * p.h.count == 0) continue;
      if (p.taps() == 0 && !own.after.bias) {  // a pixel in two or more, with strides
        const auto clear = [&]<class S>(S* out) {
          for_pixels(p, p.columns[0], images, 0, rows, [&](int64_t pixel, int64_t count) {
            for (const int64_t at : std::span(p.out_rows).subspan(pixel, count))
              std::memset(out + at + begin, 0, (end - begin) * g.shape.groups * sizeof(S));
          });
        };
        own.after.result ? clear(own.after.result) : clear(own.out);
        continue;
      }
      if (g.shape.depthwise()) {
        if constexpr (kDepthStep<T> == 1)
          for_pixels(p, p.columns[0], images, 0, rows, [&](int64_t pixel, int64_t count) {
            depthwise<T>().gather({own.in, p.in_rows.data() + pixel, count, p.tap_offsets.data(),
                                   p.depth, own.packed + p.filters, g.in_c, own.out,
                                   p.out_rows.data() + pixel});
          });
      } else {
        Band bands[kMaxBands] = {{0, rows, {0, p.v.taps}}};  // all taps are in the image
        const int count = g.direct ? 1
                                   : make_bands(p.v, row * g.in_step_h + p.v.base, g.in_step_h,
                                                rows, g.in_h, bands);
        multiply(p, {images, bands, count}, own, begin, end);
      }
    }
  }

  // Copies the input of all tasks, then computes them. Threads take channels of a task, too, so
  // that each reads only its part of the filters.
  void run_by_channels(ThreadPool& pool, const T* in, const T* packed, Sum* out,
                       const Scratch& scratch, const ConvHooks<T>& hooks) const {
    const ConvGeometry& g = geometry_;
    const int64_t each = tiling_.images, row = g.out_w * g.out_c;
    if (!g.direct)
      pool.parallel_for(g.n * tiling_.block_h, [&](int64_t i) {
        const int64_t image = i / tiling_.block_h, y = i % tiling_.block_h;
        copy_rows(hooks, in, image, y, 1,
                  scratch.blocks + image / each * block_elements() +
                      (image % each * tiling_.block_h + y) * g.block_w * g.in_c);
      });
    const auto result_of = [&](int64_t image) {
      return in_ranges_
                 ? scratch.result + image / each * result_elements() + image % each * g.out_h * row
                 : out + image * g.out_h * row;
    };
    const int64_t panel = 2 * microkernels<T>().lanes, panels = ceil_div(g.out_c, panel);
    const int64_t parts = std::min(ceil_div(pool.size(), tiling_.tasks), panels);
    pool.parallel_for(tiling_.tasks * parts, [&](int64_t i) {
      const int64_t task = i / parts, part = i % parts, image = task * each;
      const Operands own{
          g.direct ? in : scratch.blocks + task * block_elements(), packed, result_of(image),
          hooks.activation.from(0, image * g.out_h * row),          true,   result_is_large()};
      multiply_phases(0, tiling_.rows, std::min(each, g.n - image), own,
                      panels * part / parts * panel,
                      std::min(panels * (part + 1) / parts * panel, g.out_c));
    });
    if (!hooks.epilogue.apply) return;
    pool.parallel_for(g.n * g.out_h, [&](int64_t i) {
      hooks.epilogue(result_of(i / g.out_h) + i % g.out_h * row, i * row, row);
    });
  }

  void run_task(int64_t task, const T* in, const T* packed, Sum* out, const Scratch& own,
                const ConvHooks<T>& hooks) const {
    const ConvGeometry& g = geometry_;
    const int64_t image = task / tiling_.blocks_per_image * tiling_.images;
    const int64_t block = task % tiling_.blocks_per_image;
    const int64_t row = tiling_.first_row(block), rows_of_task = tiling_.first_row(block + 1) - row;
    const int64_t images = std::min(tiling_.images, g.n - image);
    in = input_of(hooks, in, image, images, row * g.in_step_h, own.blocks);
    const int64_t out_row = row * g.out_step_h;
    const int64_t first = (image * g.out_h + out_row) * g.out_w * g.out_c;
    Sum* const to = in_ranges_ ? own.result : out + first;
    multiply_phases(row, rows_of_task, images,
                    {in, packed, to, hooks.activation.from(0, first), true, result_is_large()}, 0,
                    g.out_c / g.shape.groups);
    const int64_t rows = std::min(rows_of_task * g.out_step_h, g.out_h - out_row);
    hooks.epilogue(to, first, images * rows * g.out_w * g.out_c);
  }

  // Calls run(first, count) for the table entries of pixels in rows [first_row, last_row) of some
  // columns: once, unless there are other columns or the task has fewer images than the tables.
  template <class Run>
  void for_pixels(const Phase& p, const Band& columns, int64_t images, int64_t first_row,
                  int64_t last_row, Run run) const {
    const int64_t row = tiling_.images * p.h.count, width = columns.last - columns.first;
    if (images == tiling_.images && width == p.h.count)
      return run(first_row * row, (last_row - first_row) * row);
    for (int64_t q = first_row; q < last_row; ++q)
      run(q * row + tiling_.images * columns.first, images * width);
  }

  const ConvGeometry geometry_;
  const ImplicitGemmTiling tiling_;
  std::vector<Phase> phases_;
  const bool packed_, in_ranges_;
  int64_t filters_ = 0;  // elements of the packed filters
};

bool multiplies_pairs(const ConvRequest& r) {
  if (r.dtype != DType::bf16 || r.shape.depthwise()) return false;
  return r.pass != ConvPass::weight_grad || weight_grad_takes_pairs(r);
}

std::unique_ptr<AnyConvolution> make_direct(const ConvRequest& r, ConvVariant form) {
  if (r.pass == ConvPass::weight_grad) return make_weight_grad(r, form);
  return make_convolution<ImplicitGemm>(ConvTypes(), r.dtype, r, form);
}

}  // namespace

const ConvAlgorithm ConvAlgorithm::direct = {
    .name = "direct",
    .applies = [](const ConvRequest&, const CpuSettings&) { return true; },
    .make = make_direct,
    .takes_prologue =
        [](const ConvRequest& r) {
          return r.pass == ConvPass::weight_grad ? weight_grad_takes_prologue(r)
                                                 : r.pass == ConvPass::forward;
        },
    .absorbs_prologue = forward_is_direct,
    .packs_filters = [](const ConvRequest& r) { return r.pass == ConvPass::forward; },
    .computes_rows =
        [](const ConvRequest& r) {
          return r.pass == ConvPass::forward && is_single(r.dtype) && r.shape.pointwise() &&
                 r.shape.groups == 1 && r.shape.weights() * bytes_of(r.dtype) <= kChainFilterBytes;
        },
    .takes_half = multiplies_pairs};

}  // namespace tessera
