// Moments: mean and std of the pixels of a data set, per channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

// Exact sums over the bytes of images; their order does not matter.
class Moments {
 public:
  explicit Moments(int channels)
      : sums_(static_cast<size_t>(channels)), squares_(static_cast<size_t>(channels)) {}
  // Adds `count` bytes, a multiple of the channels; at most 2^46 pixels in all.
  void add(const uint8_t* bytes, int64_t count);
  void add(const Moments& other);
  // Returns mean and std of pixels / 255, rounded to four decimals, as such values are published. A
  // std of 0 becomes 1, because pixels are divided by it.
  Normalization normalization() const;

 private:
  std::vector<int64_t> sums_, squares_;
  int64_t pixels_ = 0;
};

// A normalization is measured on at most this many images: every stride-th from the first.
inline constexpr int64_t kMaxMeasured = 50'000;
inline int64_t measuring_stride(int64_t count) { return (count + kMaxMeasured - 1) / kMaxMeasured; }

// Measures in `threads` threads, at least one; the result does not depend on their number. Throws
// what reading the first unreadable image throws.
Normalization measured_normalization(const Dataset& data, int threads);

// "mean [0.4914, 0.4822, 0.4465], std [0.247, 0.2435, 0.2616]"
std::string normalization_text(const Normalization& normalization);

// Returns the double that a configuration writes for `value`: 0.4914 for 0.4914f.
double shortest(float value);

}  // namespace tessera
