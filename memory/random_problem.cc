#include "tessera/memory/random_problem.h"

#include <algorithm>
#include <bit>
#include <random>

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
      buffer.offset = (next_fixed + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
      next_fixed = buffer.offset + buffer.size;
    }
    if (numbers.chance(settings.hints)) buffer.hint = numbers.below(settings.largest);
    problem.buffers.push_back(std::move(buffer));
  }
  return problem;
}

}  // namespace tessera
