#include "tessera/memory/sample_problems.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <random>

#include <fmt/format.h>

#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : numbers_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(numbers_() % static_cast<uint64_t>(n)); }
  bool chance(double share) { return static_cast<double>(below(1 << 20)) < share * (1 << 20); }

 private:
  std::mt19937_64 numbers_;  // unlike distributions, its output is the same everywhere
};

void add_gaps(Interval& buffer, Numbers& numbers) {
  for (int64_t time = buffer.lower + numbers.below(3); time < buffer.upper;) {
    const int64_t end = std::min(buffer.upper, time + 1 + numbers.below(4));
    buffer.gaps.push_back({time, end});
    time = end + numbers.below(5);
  }
}

class Training {
 public:
  explicit Training(const TrainingNetwork& network) : n_(network) {}

  RecomputeProblem problem() {
    Image x{add_value("images", 0), 3, n_.image};
    x = pool(norm(conv(x, 64, 7, 2, "stem"), -1, "stem"));
    int width = 64;
    for (size_t stage = 0; stage < n_.blocks.size(); ++stage, width *= 2)
      for (int b = 0; b < n_.blocks[stage]; ++b)
        x = block(x, width, stage > 0 && b == 0 ? 2 : 1, fmt::format("{}.{}", stage + 1, b));
    loss(x);
    while (!backward_.empty()) {
      const auto step = std::move(backward_.back());
      backward_.pop_back();
      step();
    }
    return std::move(problem_);
  }

 private:
  struct Image {
    int value, channels, side;
  };
  struct Work {
    double flops = 0;
    bool cheap = true;
  };

  int64_t bytes_of(const Image& x) const {
    return round(int64_t{4} * n_.batch * x.side * x.side * x.channels);
  }
  static int64_t round(int64_t bytes) { return round_up(bytes, 64); }

  int add_value(const std::string& id, int64_t bytes) {
    problem_.values.push_back({bytes, false, {}, id});
    moved_.push_back(bytes);
    gradient_.push_back(-1);
    return static_cast<int>(problem_.values.size()) - 1;
  }

  Image add_image(const std::string& id, int channels, int side) {
    return {add_value(id, bytes_of({0, channels, side})), channels, side};
  }

  // Adds a gradient: the last user of a value makes it, the others add to it.
  int gradient(const Image& x, int writer_reads) {
    const int g = add_value("d_" + problem_.values[x.value].id, bytes_of(x));
    if (writer_reads >= 0 && bytes_of(x) == problem_.values[writer_reads].bytes)
      problem_.values[g].may_reuse.push_back(writer_reads);
    return g;
  }

  void add_step(const std::string& id, const Work& work, std::vector<int> reads,
                std::vector<int> makes, std::vector<int> overwrites = {}) {
    int64_t bytes = 0;
    for (const auto& list : {reads, makes, overwrites})
      for (int v : list) bytes += moved_[v];
    const double ns =
        std::max(work.flops / n_.flops_per_ns, static_cast<double>(bytes) / n_.bytes_per_ns);
    const bool recomputable = overwrites.empty();
    problem_.steps.push_back({static_cast<int64_t>(ns), 0, std::move(reads), std::move(makes),
                              std::move(overwrites), recomputable, work.cheap, id});
  }

  // Adds a parameter with its momentum; update() updates it, once the gradient exists.
  int parameter(const std::string& id, int64_t bytes) { return add_value(id, 2 * bytes); }
  void update(int parameter, int gradient) {
    add_step("update." + problem_.values[parameter].id, {}, {gradient, parameter}, {}, {parameter});
  }

  Image conv(const Image& x, int channels, int k, int stride, const std::string& id) {
    const int side = x.side / stride;
    const double flops = 2.0 * n_.batch * side * side * channels * x.channels * k * k;
    const int64_t weights = int64_t{4} * channels * x.channels * k * k;
    const int w = parameter(id + ".weight", weights);
    const Image made = add_image(id, channels, side);
    add_step("conv." + id, {flops, false}, {x.value, w}, {made.value});
    backward_.push_back([=, this] {
      const int dy = gradient_[made.value];
      const int dw = add_value("d_" + id + ".weight", weights);
      add_step("weight_grad." + id, {flops, false}, {x.value, dy}, {dw});
      if (x.channels > 3) {
        const int dx = gradient(x, -1);
        add_step("data_grad." + id, {flops, false}, {dy, w}, {dx});
        add_to_gradient(x, dx);
      }
      update(w, dw);
    });
    return made;
  }

  void add_to_gradient(const Image& x, int dx) {
    int& total = gradient_[x.value];
    if (total < 0) {
      total = dx;
      return;
    }
    const int before = total;
    const int sum = gradient(x, before);
    add_step("add." + problem_.values[sum].id, {}, {before, dx}, {sum});
    gradient_[x.value] = sum;
  }

  // Adds batch norm, the addition of the shortcut (a value; -1: none) and ReLU.
  Image norm(const Image& y, int shortcut, const std::string& id, bool relu = true) {
    const int64_t row = int64_t{4} * y.channels;
    const int scale = parameter(id + ".scale", 2 * row);
    const int statistics = parameter(id + ".running", row);
    const int parts = add_value(id + ".parts", round(row * 2 * n_.batch));
    const int moments = add_value(id + ".moments", round(row * 2));
    add_step("moments." + id, {}, {y.value}, {parts});
    add_step("merge." + id, {}, {parts}, {moments});
    add_step("running." + id, {}, {moments, statistics}, {}, {statistics});
    const Image z = add_image(id + ".out", y.channels, y.side);
    std::vector<int> reads = {y.value, moments, scale};
    if (shortcut >= 0) reads.push_back(shortcut);
    add_step("norm." + id, {}, reads, {z.value});
    if (shortcut >= 0) problem_.values[z.value].may_reuse = {shortcut};
    backward_.push_back([=, this] {
      int dz = gradient_[z.value];
      if (relu) {
        const int masked = gradient(z, dz);
        add_step("relu_grad." + id, {}, {dz, z.value}, {masked});
        dz = masked;
      }
      if (shortcut >= 0) add_to_gradient({shortcut, y.channels, y.side}, dz);
      const int sums = add_value(id + ".sums", round(row * 2));
      add_step("sums." + id, {}, {dz, y.value, moments}, {sums});
      const int dy = gradient(y, dz);
      add_step("norm_grad." + id, {}, {dz, y.value, moments, scale, sums}, {dy});
      gradient_[y.value] = dy;
      update(scale, sums);
    });
    return z;
  }

  Image pool(const Image& x) {
    const Image p = add_image("pool", x.channels, x.side / 2);
    add_step("pool", {}, {x.value}, {p.value});
    backward_.push_back([=, this] {
      const int dx = gradient(x, -1);
      add_step("pool_grad", {}, {x.value, gradient_[p.value]}, {dx});
      gradient_[x.value] = dx;
    });
    return p;
  }

  Image block(const Image& x, int width, int stride, const std::string& id) {
    int shortcut = x.value;
    if (stride > 1 || x.channels != 4 * width)
      shortcut = norm(conv(x, 4 * width, 1, stride, id + ".down"), -1, id + ".down", false).value;
    Image y = norm(conv(x, width, 1, 1, id + ".1"), -1, id + ".1");
    y = norm(conv(y, width, 3, stride, id + ".2"), -1, id + ".2");
    return norm(conv(y, 4 * width, 1, 1, id + ".3"), shortcut, id + ".3");
  }

  void loss(const Image& x) {
    const int64_t features = int64_t{4} * n_.batch * x.channels;
    const int mean = add_value("mean", round(features));
    add_step("mean", {}, {x.value}, {mean});
    const int w = parameter("fc.weight", int64_t{4} * 1000 * x.channels);
    const int logits = add_value("logits", round(int64_t{4} * n_.batch * 1000));
    const double flops = 2.0 * n_.batch * 1000 * x.channels;
    add_step("fc", {flops, false}, {mean, w}, {logits});
    const int result = add_value("loss", 64);
    problem_.values[result].result = true;
    const int d_logits = add_value("d_logits", round(int64_t{4} * n_.batch * 1000));
    add_step("loss", {}, {logits}, {result, d_logits});
    const int dw = add_value("d_fc.weight", int64_t{4} * 1000 * x.channels);
    add_step("weight_grad.fc", {flops, false}, {mean, d_logits}, {dw});
    const int d_mean = add_value("d_mean", round(features));
    add_step("data_grad.fc", {flops, false}, {d_logits, w}, {d_mean});
    update(w, dw);
    const int dx = gradient(x, -1);
    add_step("mean_grad", {}, {d_mean}, {dx});
    gradient_[x.value] = dx;
  }

  const TrainingNetwork& n_;
  RecomputeProblem problem_;
  std::vector<int64_t> moved_;  // per value: bytes moved by a step that reads or makes it
  std::vector<int> gradient_;   // per value: its gradient so far
  std::vector<std::function<void()>> backward_;
};

}  // namespace

Problem random_problem(const RandomProblem& settings) {
  Numbers numbers(settings.seed);
  Problem problem;
  int64_t next_fixed = 0;
  for (int64_t i = 0; i < settings.buffers; ++i) {
    Interval buffer;
    buffer.id = std::to_string(i);
    buffer.lower = numbers.below(settings.times);
    const bool long_lived = numbers.chance(settings.long_lived);
    const int64_t longest = long_lived ? settings.times : 1 + settings.times / 8;
    buffer.upper = buffer.lower + 1 + numbers.below(longest);
    buffer.size = 1 + numbers.below(settings.largest);
    if (numbers.chance(settings.empty)) buffer.size = 0;
    if (numbers.chance(settings.empty)) buffer.upper = buffer.lower;
    if (numbers.chance(settings.aligned)) {
      const int powers = std::bit_width(static_cast<uint64_t>(settings.largest_alignment));
      buffer.alignment = int64_t{1} << numbers.below(powers);
    }
    if (numbers.chance(settings.gaps)) add_gaps(buffer, numbers);
    if (numbers.chance(settings.fixed)) {
      buffer.offset = round_up(next_fixed, buffer.alignment);
      next_fixed = buffer.offset + buffer.size;
    }
    if (numbers.chance(settings.hints)) buffer.hint = numbers.below(settings.largest);
    problem.buffers.push_back(std::move(buffer));
  }
  return problem;
}

RecomputeProblem training_recompute(const TrainingNetwork& network) {
  return Training(network).problem();
}

}  // namespace tessera
