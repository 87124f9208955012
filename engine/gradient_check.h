// The public gradient checker: compares numeric with analytic gradients.
#pragma once

#include <functional>
#include <string>

#include "tessera/engine/tensor.h"

namespace tessera {

struct GradientCheckSettings {
  double step = 1e-5;       // h of the central difference (f(x+h) - f(x-h)) / 2h
  double tolerance = 1e-6;  // on ||analytic - numeric|| / max(||analytic||, ||numeric||, 1e-8)
  uint64_t key = 1;         // generates the random upstream gradient
};

struct GradientCheckResult {
  bool passed = true;
  double worst = 0;    // the largest norm-relative error of all inputs
  std::string report;  // a line per input: error, and the element that is furthest off
  explicit operator bool() const { return passed; }
};

// Checks d sum(u * f(inputs)) / d input for every float64 input, u random. f is called many times
// and must be smooth around the inputs; integer inputs are passed unchanged. Runs eagerly.
GradientCheckResult check_gradients(const std::function<Tensor(const Tensors&)>& f,
                                    const Tensors& inputs,
                                    const GradientCheckSettings& settings = {});

}  // namespace tessera
