// Whether a network is as often right as it is sure: expected calibration error (Guo et al., "On
// Calibration of Modern Neural Networks", 2017).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tessera {

// Images by how sure the network was, which is the largest softmax probability. Bin k holds those
// above k / 15 up to (k + 1) / 15, bin 0 also 0.
struct Calibration {
  static constexpr size_t kBins = 15;

  struct Bin {
    int64_t images = 0, right = 0;
    double sure = 0;  // sum over the images

    // Means over the images; there must be some.
    double accuracy() const { return static_cast<double>(right) / static_cast<double>(images); }
    double confidence() const { return sure / static_cast<double>(images); }
  };
  std::array<Bin, kBins> bins{};

  // What is no number counts in bin 0, and makes the error none either.
  void add(double sure, bool is_right);
  int64_t images() const;
  double confidence() const;  // mean over all images; NaN of none
  // Mean over all images of |accuracy - confidence| of their bin; NaN of no images.
  double error() const;
};

}  // namespace tessera
