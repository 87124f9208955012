// Exponential moving average of the weights (Polyak and Juditsky 1992), as timm's ModelEmaV3
// defines it. After update t = 1, 2, ... of the weights w, with s = t - 1:
//
//   d = 0 for s = 0, else decay;  with warmup  d = min(decay, 1 - (1 + s)^(-2/3))
//   a <- a + (1 - d) (w - a)
//
// so the first update copies. Running statistics are averaged like parameters. It is made of ops,
// so a captured step holds it too. Where lr is not finite nothing was updated, and the averages
// stay.
#pragma once

#include "tessera/engine/store.h"

namespace tessera {

struct EmaParams {
  double decay = 0.999;  // in [0, 1)
  bool warmup = false;   // a shorter memory while there are few steps to remember
};

class Ema {
 public:
  // Of store.averages(), which the model has been built with; counts in "ema.step". Throws
  // ConfigError for a decay outside [0, 1).
  Ema(Store& store, const EmaParams& params);
  // After the weights have been updated with this lr.
  void step(const Tensor& lr);

 private:
  const Store& store_;
  const EmaParams params_;
  Tensor step_;
};

}  // namespace tessera
