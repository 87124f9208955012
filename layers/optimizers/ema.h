// Exponential moving average of the weights (Polyak and Juditsky 1992), as in timm's ModelEmaV3.
// After update t = 1, 2, ... of the weights w, with s = t - 1:
//
//   d = 0 for s = 0, else decay;  with warmup  d = min(decay, 1 - (1 + s)^(-2/3))
//   a <- a + (1 - d) (w - a)
//
// so the first update copies. Running statistics are averaged like parameters. The update consists
// of ops, so a captured step contains it. If lr is not finite, nothing was updated, and the
// averages stay unchanged.
#pragma once

#include "tessera/engine/store.h"

namespace tessera {

struct EmaParams {
  double decay = 0.999;  // in [0, 1)
  bool warmup = false;   // shorter memory in the first steps
};

class Ema {
 public:
  // Averages store.ema_pairs(), which building the model in a Store::EmaScope has declared. Counts
  // updates in "ema.step". Throws ConfigError if decay is not in [0, 1).
  Ema(Store& store, const EmaParams& params);
  // Updates the averages. Requires weights that have been updated with this lr.
  void step(const Tensor& lr);

 private:
  const Store& store_;
  const EmaParams params_;
  Tensor step_;
};

}  // namespace tessera
