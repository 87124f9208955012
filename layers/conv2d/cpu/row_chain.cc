#include "tessera/layers/conv2d/cpu/row_chain.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "tessera/layers/shared/epilogue.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

constexpr size_t kMaxStages = 3;
// The result of a 1x1 convolution that stays in L1 until its epilogue, but enough pixels to use the
// filters.
constexpr int64_t kResultBytes = 16 << 10, kPixelsAtLeast = 24;

template <class T>
class RowChain final : public Kernel {
  using Sum = Computed<T>;
  static constexpr bool kRounds = !std::is_same_v<T, Sum>;

 public:
  explicit RowChain(std::vector<ChainStage> stages)
      : stages_(std::move(stages)),
        middle_(stages_[0].shape.depthwise() ? 0 : 1),
        shape_(stages_[middle_].shape),
        step_(2 * shape_.stride_h),
        kept_(3 - shape_.stride_h) {}

  size_t scratch(int threads) const { return lay_out(threads, nullptr).size; }

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    ThreadPool& pool = static_cast<CpuContext&>(ctx).pool();
    const Scratch all = lay_out(pool.size(), scratch.data);
    Call call{in[0].as<T>(), out[0].as<T>(), {}, {}, {}};
    size_t at = 1;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const auto extra = static_cast<size_t>(stages_[s].inputs) - 2;
      call.filters[s] = in[at].as<T>();
      const Buffers inputs = in.subspan(at + 1, extra);
      if (stages_[s].activation)
        call.activations[s] =
            stages_[s].activation->template bound_to<T>(inputs, kRounds ? call.y : nullptr);
      if (!convolution(s).applies(call.activations[s])) {
        call.activations[s] = {};
        call.epilogues[s].emplace(stages_[s].epilogue, inputs, out[0]);
      }
      call.activations[s].result = nullptr;  // set by compute()
      at += 1 + extra;
    }
    if constexpr (kRounds) std::copy_n(call.filters[middle_], shape_.weights(), all.filters);
    const int64_t height = shape_.out_h(), rows = shape_.n * height, threads = pool.size();
    pool.parallel_for(threads, [&](int64_t t) {
      const Scratch own = of_thread(all, t);
      for (int64_t row = rows * t / threads, end = rows * (t + 1) / threads; row < end;) {
        const int64_t image = row / height, first = row % height;
        const int64_t last = std::min(height, first + end - row);
        run_band(call, own, image, first, last);
        row += last - first;
      }
    });
  }

 private:
  struct Call {
    const T* x;
    T* y;
    const T* filters[kMaxStages];
    BiasActivation<T> activations[kMaxStages];
    std::optional<EpilogueRun> epilogues[kMaxStages];  // set without an activation
  };
  // Pointers to a thread's memory are those of the first thread.
  struct Scratch {
    Sum* filters;  // the depthwise convolution's in float32, for all threads: in 16 bits only
    Sum* sums;     // those that are computed at once: likewise
    T* ring;       // rows of its input: row i of a band is at (i + step_ - kept_) % (2 step_)
    T* middle;     // two rows of its result
    size_t size;
  };

  const Convolution<T>& convolution(size_t stage) const {
    return static_cast<const Convolution<T>&>(*stages_[stage].convolution);
  }
  bool expands() const { return middle_ > 0; }
  bool projects() const { return middle_ + 1 < stages_.size(); }
  int64_t in_row() const { return shape_.w * shape_.c; }
  static int64_t out_row(const ConvShape& s) { return s.out_w() * s.o; }
  int64_t ring_elements() const { return expands() ? 2 * step_ * in_row() : 0; }
  int64_t middle_elements() const { return projects() ? 2 * out_row(shape_) : 0; }
  int64_t sum_elements() const {
    if (!kRounds) return 0;
    int64_t most = 2 * out_row(shape_);
    for (const ChainStage& stage : stages_)
      if (!stage.shape.depthwise())
        most = std::max(most, Convolution<T>::kMaxPixels * stage.shape.o);
    return most;
  }
  static int64_t pixels_at_once(const ConvShape& s) {
    const int64_t fit = kResultBytes / static_cast<int64_t>(sizeof(Sum)) / s.o / 8 * 8;
    return std::clamp(fit, kPixelsAtLeast, Convolution<T>::kMaxPixels);
  }

  Scratch lay_out(int threads, void* base) const {
    ScratchLayout layout(base);
    Scratch all{};
    all.filters = layout.take<Sum>(kRounds ? shape_.weights() : 0);
    all.sums = layout.take<Sum>(threads * sum_elements());
    all.ring = layout.take<T>(threads * ring_elements());
    all.middle = layout.take<T>(threads * middle_elements());
    all.size = layout.size();
    return all;
  }
  Scratch of_thread(Scratch all, int64_t thread) const {
    all.sums += thread * sum_elements();
    all.ring += thread * ring_elements(), all.middle += thread * middle_elements();
    return all;
  }

  // Computes `count` rows of a stage's result, or pixels of a 1x1 convolution's, counted over all
  // images from `first` on, at `to`.
  void compute(const Call& call, const Scratch& own, size_t stage, const T* const* in,
               int64_t first, int64_t count, T* to) const {
    const ConvShape& s = stages_[stage].shape;
    const int64_t elements = stage == middle_ ? out_row(s) : s.o;
    ConvRows<T> rows{.in = in,
                     .count = count,
                     .filters = call.filters[stage],
                     .wide_filters = own.filters,
                     .out = own.sums,
                     .activation = call.activations[stage].from(0, first * elements),
                     .reads_memory = stage == 0,
                     .writes_memory = stage + 1 == stages_.size()};
    if constexpr (!kRounds)
      rows.out = to, rows.wide_filters = rows.filters;
    else if (!call.epilogues[stage])
      rows.activation.result = to;
    convolution(stage).run_rows(rows);
    if (call.epilogues[stage] && !stages_[stage].epilogue.is_identity())
      call.epilogues[stage]->apply_to(to, first * elements, count * elements, rows.out);
  }
  void compute_pixels(const Call& call, const Scratch& own, size_t stage, const T* in,
                      int64_t first, int64_t count, T* to) const {
    const ConvShape& s = stages_[stage].shape;
    const int64_t most = call.epilogues[stage] ? pixels_at_once(s) : Convolution<T>::kMaxPixels;
    for (int64_t i = 0; i < count; i += most) {
      const T* const from = in + i * s.c;
      compute(call, own, stage, &from, first + i, std::min(most, count - i), to + i * s.o);
    }
  }

  // Computes rows [first, last) of an image of the result.
  void run_band(const Call& call, const Scratch& own, int64_t image, int64_t first,
                int64_t last) const {
    const int64_t stride = shape_.stride_h, top = first * stride - shape_.pad_h, h = shape_.h;
    const auto row_at = [&](int64_t y) {
      return own.ring + (y - top + step_ - kept_) % (2 * step_) * in_row();
    };
    int64_t made = std::max<int64_t>(top, 0);  // the rows before are in the ring or not read
    for (int64_t i = first; i < last; i += 2) {
      const int64_t rows = std::min<int64_t>(2, last - i), row = image * shape_.out_h() + i;
      const int64_t begin = i * stride - shape_.pad_h, end = begin + (rows - 1) * stride + 3;
      if (const int64_t until = std::min(end, h); expands() && until > made) {
        const ConvShape& s = stages_[0].shape;
        const int64_t pixel = (image * h + made) * s.w;
        compute_pixels(call, own, 0, call.x + pixel * s.c, pixel, (until - made) * s.w,
                       row_at(made));
        made = until;
      }
      const T* in[5] = {};
      for (int64_t y = std::max<int64_t>(begin, 0); y < std::min(end, h); ++y)
        in[y - begin] = expands() ? row_at(y) : call.x + (image * h + y) * in_row();
      T* const result = call.y + row * out_row(stages_.back().shape);
      T* const middle = projects() ? own.middle : result;
      compute(call, own, middle_, in, row, rows, middle);
      const int64_t pixels = shape_.out_w();
      if (projects())
        compute_pixels(call, own, middle_ + 1, middle, row * pixels, rows * pixels, result);
    }
  }

  const std::vector<ChainStage> stages_;
  const size_t middle_;  // index of the depthwise convolution
  const ConvShape shape_;
  const int64_t step_, kept_;  // rows of its input that a pair of rows adds to those of the last
};

}  // namespace

size_t row_chain_scratch(DType dtype, const std::vector<ChainStage>& stages, int threads) {
  return visit_types(SingleTypes(), dtype,
                     [&]<class T>(T) { return RowChain<T>(stages).scratch(threads); });
}

std::unique_ptr<Kernel> row_chain_kernel(DType dtype, std::vector<ChainStage> stages) {
  return visit_types(SingleTypes(), dtype, [&]<class T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<RowChain<T>>(std::move(stages));
  });
}

}  // namespace tessera
