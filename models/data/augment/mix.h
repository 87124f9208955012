// Mixup and cutmix: mixing the images of a batch, and their labels, with each other.
//
//   mixup    Zhang et al. 2018: every pixel is s a + (1 - s) b, s drawn from Beta(alpha, alpha)
//   cutmix   Yun et al. 2019: a rectangle of b, about 1 - s of the area, is copied into a; s is
//            then the fraction of a that remains
//
// Image i is mixed with image i + 1 of the batch, the last with the first. The target is the label
// of a with weight s and that of b with weight 1 - s. The result is a function of (seed, epoch,
// sample) and of the neighbours in the batch; it does not depend on the number of workers.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/models/data/augment/augment.h"

namespace tessera {

struct Mix {
  double mixup = 0;   // alpha; 0: none
  double cutmix = 0;  // alpha; 0: none. If both are set, each image draws one
  // The probabilities that an image is mixed if it has drawn mixup or cutmix.
  double mixup_probability = 1, cutmix_probability = 1;

  bool any() const { return mixup > 0 || cutmix > 0; }
  std::string describe() const;  // "mixup alpha 0.2"
};

// Throws ConfigError unless alpha is in [0, 100] and probabilities are in [0, 1].
void check_mix(const Mix& mix);

// Mixes images [count x shape] in place, each with the next one, the last with `next`, and writes
// partners and shares [count]: the label of b and the weight s of the label of a. samples [count]:
// their indices; next, next_label: the first image of the batch before it is mixed, or the one that
// follows this process's images. Allocates nothing.
void mix_batch(const Mix& mix, const AugmentKey& key, const ImageShape& shape, int64_t count,
               const int64_t* samples, const int32_t* labels, uint8_t* images, int32_t* partners,
               float* shares, const uint8_t* next, int32_t next_label);

}  // namespace tessera
