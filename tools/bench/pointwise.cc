// pointwise_bench: speed of scalar programs, compiled and interpreted, relative to the same
// expression as a loop, or of the sums of norms relative to a loop that only reads: a Markdown
// table on stdout. Medians of processor time on one thread, run alternately. Built on request:
// ninja pointwise_bench; pointwise_bench [programs|sums [ROUNDS]]. The loops get few channels as
// rows of at least 256 elements.
#include <algorithm>
#include <ctime>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/pointwise_run.h"
#include "tessera/engine/scalar_program.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/tools/bench/by_hand_simd.h"

namespace tessera {
namespace {

using Work = std::function<void()>;

double seconds(const Work& work, int times) {
  const std::clock_t start = std::clock();
  for (int i = 0; i < times; ++i) work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / times;
}

std::vector<double> medians(const std::vector<Work>& all, int rounds) {
  seconds(all[0], 1);
  const int times = std::clamp(static_cast<int>(0.001 / (seconds(all[0], 1) + 1e-6)), 1, 1000);
  std::vector<std::vector<double>> taken(all.size());
  for (int i = 0; i < rounds; ++i)
    for (size_t k = 0; k < all.size(); ++k) taken[k].push_back(seconds(all[k], times));
  std::vector<double> result;
  for (std::vector<double>& one : taken) {
    std::ranges::sort(one);
    result.push_back(one[one.size() / 2]);
  }
  return result;
}

using stages::Scalar;

struct Case {
  const char* name;
  ByHand::Loop ByHand::*loop;
  ScalarProgram program;
  std::vector<int> whole;  // inputs as large as the output; the others have one value per channel
};

const std::vector<Case> kCases = {
    {"bias", &ByHand::bias, stages::program<1>(stages::plus), {0}},
    {"batch_norm+relu",
     &ByHand::batch_norm_relu,
     stages::program<1>([](Scalar x) { return relu(norm(x)); }),
     {0}},
    {"batch_norm+add+relu",
     &ByHand::batch_norm_add_relu,
     stages::program<1>([](Scalar x) { return relu(plus(norm(x))); }),
     {0, 5}},
    {"batch_norm_input_grad",
     &ByHand::batch_norm_input_grad,
     stages::program<2>(stages::batch_norm_grad),
     {0, 1}},
    {"relu_grad", &ByHand::relu_grad, stages::program<2>(stages::relu_grad), {0, 1}},
};

// An allocator with the alignment of tensor blocks.
template <class T>
struct Aligned {
  using value_type = T;
  T* allocate(size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{kAlignment}));
  }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{kAlignment}); }
  bool operator==(const Aligned&) const = default;
  static constexpr size_t kAlignment = 256;
};
using Floats = std::vector<float, Aligned<float>>;

Floats values(int64_t n, int key) {
  Floats all(static_cast<size_t>(n));
  uint32_t state = 2463534242u + static_cast<uint32_t>(key);
  for (float& x : all) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    x = static_cast<float>(state % 2001) / 1000.0F - 1;
  }
  return all;
}

// `range` is the number of elements per call, as in epilogues, or 0.
Work run(const PointwisePlan& plan, const std::vector<const void*>& in, float* out, int64_t total,
         int64_t range) {
  return [&plan, &in, out, total, range] {
    const PointwiseRun run(plan, in.data(), out);
    const int64_t step = range > 0 ? range : 1 << 14;
    for (int64_t i = 0; i < total; i += step) run.apply(i, std::min(step, total - i));
  };
}

void print(const std::string& name, int64_t c, const char* where, double bytes,
           const std::vector<double>& times) {
  fmt::print("| {} | {} | {} | {:.1f} |", name, c, where, bytes / times[0] * 1e-9);
  for (size_t k = 1; k < times.size(); ++k) fmt::print(" {:.2f} |", times[0] / times[k]);
  fmt::print("\n");
  std::fflush(stdout);
}

void compare(const Case& one, int64_t c, int64_t elements, const char* where, int rounds) {
  const ByHand& hand = TESSERA_SELECT_MICROKERNELS(by_hand);
  const ScalarProgram& program = one.program;
  const int64_t repeats = c < 64 ? (256 + c - 1) / c : 1, row = c * repeats;
  const int64_t rows = std::max<int64_t>(elements / row, 1), total = rows * row;
  std::vector<Floats> data;
  std::vector<Broadcast> broadcasts;
  std::vector<const float*> in;
  std::vector<const void*> operands;
  for (int k = 0; k < program.inputs; ++k) {
    const bool whole = std::count(one.whole.begin(), one.whole.end(), k) > 0;
    data.push_back(values(whole ? total : row, k));
    for (int64_t i = c; i < row && !whole; ++i) data.back()[i] = data.back()[i - c];
    broadcasts.push_back({1, whole ? total : c});
  }
  for (const Floats& x : data) in.push_back(x.data()), operands.push_back(x.data());
  Floats out(static_cast<size_t>(total));
  const PointwisePlan compiled(program, DType::f32, broadcasts, total);
  const PointwisePlan interpreted(program, DType::f32, broadcasts, total,
                                  {.code = PointwiseCode::interpreted});
  const Work loop = [&] { (hand.*one.loop)(in.data(), rows, row, out.data()); };
  const int64_t range = std::max<int64_t>(512 / c, 1) * c;
  const auto times = medians({loop, run(compiled, operands, out.data(), total, 0),
                              run(compiled, operands, out.data(), total, range),
                              run(interpreted, operands, out.data(), total, 0)},
                             rounds);
  print(one.name, c, where, 4.0 * static_cast<double>(total) * (1.0 + one.whole.size()), times);
}

// Multiplies x [n, c] by a value for each n, or by one value.
void compare_scale(int64_t c, bool one, int64_t elements, const char* where, int rounds) {
  const ByHand& hand = TESSERA_SELECT_MICROKERNELS(by_hand);
  const ScalarProgram program = stages::program<1>(stages::times);
  const int64_t rows = std::max<int64_t>(elements / c, 1), total = rows * c;
  const Floats x = values(total, 1), factor = values(rows, 2);
  Floats out(static_cast<size_t>(total));
  const std::vector<Broadcast> broadcasts{{1, total}, {one ? 1 : c, one ? 1 : rows}};
  const std::vector<const void*> operands{x.data(), factor.data()};
  const PointwisePlan compiled(program, DType::f32, broadcasts, total);
  const PointwisePlan interpreted(program, DType::f32, broadcasts, total,
                                  {.code = PointwiseCode::interpreted});
  const Work loop = [&] {
    if (one)
      hand.scale(x.data(), factor.data(), 1, total, out.data());
    else
      hand.scale(x.data(), factor.data(), rows, c, out.data());
  };
  const auto times =
      medians({loop, run(compiled, operands, out.data(), total, 0),
               run(compiled, operands, out.data(), total, std::max<int64_t>(512 / c, 1) * c),
               run(interpreted, operands, out.data(), total, 0)},
              rounds);
  print(one ? "by one value" : "by a value for each row", c, where, 8.0 * total, times);
}

struct Size {
  const char* name;
  int64_t elements;
};

// Compares the sums of norms with the bandwidth of reading the same bytes.
void compare_sums(int64_t c, const Size& size, int rounds) {
  const ByHand& hand = TESSERA_SELECT_MICROKERNELS(by_hand);
  const int64_t rows = std::max<int64_t>(size.elements / c, 1), total = rows * c;
  const Floats x = values(total, 1), dy = values(total, 2), mean = values(c, 3);
  const ChannelBlocks blocks = channel_blocks({DType::f32, {rows, c}, {}});
  Floats sums(static_cast<size_t>(blocks.count() * 2 * c));
  ThreadPool pool(1);
  volatile float read;
  const auto times =
      medians({[&] { read = hand.sum(x.data(), total); },
               [&] { block_moments<float>(pool, blocks, c, x.data(), sums.data()); },
               [&] {
                 block_gradient_sums<float>(pool, blocks, c, dy.data(), x.data(), mean.data(),
                                            mean.data(), 0, sums.data());
               },
               [&] { read = hand.sum(x.data(), total) + hand.sum(dy.data(), total); }},
              rounds);
  fmt::print("| {} | {} | {:.1f} | {:.2f} | {:.2f} |\n", c, size.name,
             4.0 * static_cast<double>(total) / times[0] * 1e-9, times[0] / times[1],
             times[3] / times[2]);
}

constexpr Size kSizes[] = {{"L1", 3072}, {"L2", 1 << 16}, {"memory", 12 << 20}};

void programs(int rounds) {
  fmt::print(
      "| program | c | data | loop, GB/s | compiled | in ranges of 512 | interpreted |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const Size& size : kSizes) {
    for (const Case& one : kCases)
      for (const int64_t c : {1, 3, 6, 8, 16, 17, 24, 64, 100, 512, 2048})
        if (one.loop != &ByHand::relu_grad || c == 64)
          compare(one, c, size.elements, size.name, rounds);
    compare_scale(1, true, size.elements, size.name, rounds);
    for (const int64_t c : {3, 10, 64, 1000, 3136})
      compare_scale(c, false, size.elements, size.name, rounds);
  }
}

void sums(int rounds) {
  fmt::print("| c | data | read, GB/s | moments | gradient sums |\n|---|---|---|---|---|\n");
  for (const Size& size : kSizes)
    for (const int64_t c : {8, 16, 24, 32, 64, 128, 512}) compare_sums(c, size, rounds);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "programs";
  (what == "sums" ? tessera::sums : tessera::programs)(argc > 2 ? std::atoi(argv[2]) : 9);
}
