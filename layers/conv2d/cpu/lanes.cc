#include "tessera/layers/conv2d/cpu/lanes.h"

#include <algorithm>
#include <vector>

#include "tessera/layers/conv2d/cpu/algorithms.h"
#include "tessera/layers/conv2d/cpu/lanes_tiling.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

template <class T>
struct LanesBuffers {
  T* filters;  // each phase: [group][tap row][tap][input channel][output channel]
  T* block;    // per thread: input of a task
  T* row;      // per thread: a row of outputs in vectors
  T* result;   // per thread: a row of each image's outputs, if the result is passed on in ranges
  size_t size;
};

struct LanesPhase {
  ConvAxis v, h;
  int64_t filters;  // start of its filters
};

// The convolution and its gradient with respect to x, which gathers from dy.
template <class T>
class Lanes final : public Convolution<T> {
 public:
  Lanes(const ConvRequest& request, VectorAxis vector_axis, bool in_ranges);
  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }
  void run(ThreadPool& pool, const T* in, const T* filters, T* out, void* scratch,
           const ConvHooks<T>& hooks) const override;
  LanesBuffers<T> lay_out(int threads, void* scratch) const;

 private:
  void pack_phase(const LanesPhase& p, const T* filters, T* packed) const;
  void run_row(const LanesTask& task, int64_t i, const LanesBuffers<T>& own) const;
  void run_task(const LanesTask& task, const T* in, T* out, const LanesBuffers<T>& own,
                const Epilogue<T>& epilogue) const;
  // Returns the elements of a row of each image.
  int64_t result_rows() const { return in_ranges_ ? tiling_.images * g_.out_w * g_.out_c : 0; }

  const ConvGeometry g_;
  const LanesTiling tiling_;
  const int64_t in_c_, out_c_;  // channels of a group
  const bool in_ranges_;
  std::vector<LanesPhase> phases_;
};

template <class T>
Lanes<T>::Lanes(const ConvRequest& request, VectorAxis vector_axis, bool in_ranges)
    : g_(request.shape, request.pass == ConvPass::input_grad),
      tiling_(g_, vector_axis, request.dtype),
      in_c_(g_.in_c / g_.shape.groups),
      out_c_(g_.out_c / g_.shape.groups),
      in_ranges_(in_ranges) {
  int64_t filters = 0;
  for (int64_t i = 0; i < g_.phases; ++i) {
    phases_.push_back({g_.axis(true, i), g_.axis(false, i), filters});
    filters += phases_.back().v.taps * phases_.back().h.taps * in_c_ * g_.out_c;
  }
}

template <class T>
LanesBuffers<T> Lanes<T>::lay_out(int threads, void* scratch) const {
  ScratchLayout layout(scratch);
  LanesBuffers<T> b{};
  b.filters = layout.take<T>(g_.shape.weights());
  b.block = layout.take<T>(threads * tiling_.block_elements());
  b.row = layout.take<T>(threads * tiling_.output_row(g_));
  b.result = layout.take<T>(threads * result_rows());
  b.size = layout.size();
  return b;
}

template <class T>
void Lanes<T>::pack_phase(const LanesPhase& p, const T* filters, T* packed) const {
  const ConvShape& s = g_.shape;
  const int64_t c = s.c / s.groups, filter = s.kh * s.kw * c;
  const int64_t k_step = g_.backward ? filter : 1, q_step = g_.backward ? 1 : filter;
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t t = 0; t < p.v.taps * p.h.taps; ++t) {
      const int64_t u = p.v.first_tap + t / p.h.taps * p.v.tap_step;
      const int64_t v = p.h.first_tap + t % p.h.taps * p.h.tap_step;
      const T* from = filters + group * (s.o / s.groups) * filter + (u * s.kw + v) * c;
      for (int64_t k = 0; k < in_c_; ++k, from += k_step)
        for (int64_t q = 0; q < out_c_; ++q) *packed++ = from[q * q_step];
    }
}

// Computes row i of the output.
template <class T>
void Lanes<T>::run_row(const LanesTask& task, int64_t i, const LanesBuffers<T>& own) const {
  const int64_t lanes = tiling_.lanes, q = i / g_.out_step_h;
  LanesRow<T> row{};
  row.x_next = tiling_.next_vector, row.x_channel = tiling_.channel;
  row.y_next = g_.out_step_w * g_.out_c * lanes;
  row.depth = in_c_, row.outputs = out_c_;
  row.width = g_.in_w;
  for (int64_t h = 0; h < g_.out_step_w; ++h) {
    const LanesPhase& p = phases_[i % g_.out_step_h * g_.out_step_w + h];
    const int64_t start = q * g_.in_step_h + p.v.base;  // the first tap's row
    row.first_tap_row = 0, row.last_tap_row = p.v.taps;
    while (row.first_tap_row < row.last_tap_row && start + row.first_tap_row * p.v.spacing < 0)
      ++row.first_tap_row;
    while (row.first_tap_row < row.last_tap_row &&
           start + (row.last_tap_row - 1) * p.v.spacing >= g_.in_h)
      --row.last_tap_row;
    row.x_row = p.v.spacing * tiling_.row, row.x_tap = p.h.spacing * tiling_.column;
    row.taps = p.h.taps, row.vectors = tiling_.vectors;
    if (tiling_.vector_axis == VectorAxis::batch) {
      row.step = g_.in_step_w, row.spacing = p.h.spacing, row.base = p.h.base;
      row.vectors = p.h.count;
    }
    const int64_t first = (start - task.first_row) * tiling_.row;
    const int64_t filters = p.v.taps * p.h.taps * in_c_ * out_c_;
    for (int64_t group = 0; group < g_.shape.groups; ++group) {
      row.x = own.block + first + (p.h.base - g_.base_w) * tiling_.column +
              group * in_c_ * tiling_.channel;
      row.f = own.filters + p.filters + group * filters;
      row.y = own.row + (p.h.first * g_.out_c + group * out_c_) * lanes;
      lanes_kernels<T>().row(row);
    }
  }
}

template <class T>
void Lanes<T>::run_task(const LanesTask& task, const T* in, T* out, const LanesBuffers<T>& own,
                        const Epilogue<T>& epilogue) const {
  fill_block(g_, tiling_, task, in, own.block);
  const int64_t row = g_.out_w * g_.out_c;
  const int64_t first = task.first * g_.out_step_h;
  const int64_t last = std::min(task.last * g_.out_step_h, g_.out_h);
  const int64_t image = g_.out_h * row, begin = (task.image * g_.out_h + first) * row;
  for (int64_t i = first; i < last; ++i) {
    const int64_t at = begin + (i - first) * row;
    run_row(task, i, own);
    if (!in_ranges_) {
      store_outputs(g_, tiling_, task, 1, own.row, out + at, image);
      continue;
    }
    store_outputs(g_, tiling_, task, 1, own.row, own.result, row);
    for (int64_t k = 0; k < task.images; ++k)
      epilogue.apply(epilogue.context, own.result + k * row, at + k * image, row);
  }
  if (!epilogue.apply || in_ranges_) return;
  for (int64_t k = 0; k < task.images; ++k)
    epilogue.apply(epilogue.context, out + begin + k * image, begin + k * image,
                   (last - first) * row);
}

template <class T>
void Lanes<T>::run(ThreadPool& pool, const T* in, const T* filters, T* out, void* scratch,
                   const ConvHooks<T>& hooks) const {
  if (g_.n * g_.out_h * g_.out_w * g_.out_c == 0) return;
  const LanesBuffers<T> all = lay_out(pool.size(), scratch);
  for (const LanesPhase& p : phases_) pack_phase(p, filters, all.filters + p.filters);
  pool.parallel_for_thread(tiling_.tasks, [&](int64_t task, int thread) {
    LanesBuffers<T> own = all;
    own.block += thread * tiling_.block_elements();
    own.row += thread * tiling_.output_row(g_), own.result += thread * result_rows();
    run_task(tiling_.task(g_, task), in, out, own, hooks.epilogue);
  });
}

template <VectorAxis kLanes>
bool lanes_apply(const ConvRequest& request, const CpuSettings&) {
  return vector_axis_for(request) == kLanes;
}

template <VectorAxis kLanes>
std::unique_ptr<AnyConvolution> make_lanes(const ConvRequest& request, ConvVariant form) {
  return request.pass == ConvPass::weight_grad
             ? make_lanes_weight_grad(request, kLanes)
             : make_convolution<Lanes>(FloatTypes(), request.dtype, request, kLanes,
                                       form.in_ranges);
}

}  // namespace

bool may_use_vector_axis(VectorAxis lanes, const ConvShape& shape) {
  return lanes == VectorAxis::batch || shape.stride_w == 1;
}

const ConvAlgorithm ConvAlgorithm::image_lanes = {.name = "image_lanes",
                                                  .applies = lanes_apply<VectorAxis::batch>,
                                                  .make = make_lanes<VectorAxis::batch>,
                                                  .absorbs_prologue = forward_is_direct};
const ConvAlgorithm ConvAlgorithm::column_lanes = {.name = "column_lanes",
                                                   .applies = lanes_apply<VectorAxis::width>,
                                                   .make = make_lanes<VectorAxis::width>,
                                                   .absorbs_prologue = forward_is_direct};

}  // namespace tessera
