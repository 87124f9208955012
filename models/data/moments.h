// Mean and deviation of the pixels of a data set, channel by channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

// Sums over bytes of images: exact, so that their order changes nothing.
class Moments {
 public:
  explicit Moments(int channels)
      : sums_(static_cast<size_t>(channels)), squares_(static_cast<size_t>(channels)) {}
  // count: a multiple of the channels. At most 2^46 pixels in all.
  void add(const uint8_t* bytes, int64_t count);
  void add(const Moments& other);
  // Of pixels / 255, rounded to four decimals, as such values are published; a deviation that would
  // be 0 is 1, as pixels are divided by it.
  Normalization normalization() const;

 private:
  std::vector<int64_t> sums_, squares_;
  int64_t pixels_ = 0;
};

// A normalization is measured on all images of a set of so many, else on as many spread evenly:
// each stride-th image from the first.
inline constexpr int64_t kMaxMeasured = 50'000;
inline int64_t measuring_stride(int64_t count) { return (count + kMaxMeasured - 1) / kMaxMeasured; }

// Reads in so many threads, at least one; the result is the same for every number of them. Throws
// what reading throws, of the first image that cannot be read.
Normalization measured_normalization(const Dataset& data, int threads);

// "mean [0.4914, 0.4822, 0.4465], std [0.247, 0.2435, 0.2616]"
std::string normalization_text(const Normalization& normalization);

// The double that a configuration writes for such a value: 0.4914 of 0.4914f.
double shortest(float value);

}  // namespace tessera
