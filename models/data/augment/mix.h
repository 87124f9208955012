// Images of a batch mixed with each other, and their labels with them.
//
//   mixup    Zhang et al. 2018: every pixel is s a + (1 - s) b, s drawn from Beta(alpha, alpha)
//   cutmix   Yun et al. 2019: a rectangle of b, of about 1 - s of the area, is put into a; s is
//   then
//            the part of the image that a still has
//
// Image i is mixed with image i + 1 of the batch, the last with the first. The target is the label
// of a with weight s and that of b with weight 1 - s. All is a function of (seed, epoch, sample)
// and of which samples stand next to each other, so the number of workers changes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/models/data/augment/augment.h"

namespace tessera {

struct Mix {
  double mixup = 0;   // alpha; 0: none
  double cutmix = 0;  // alpha; 0: none. With both, each image draws one of them
  // Of an image being mixed at all, in the way that it has drawn.
  double mixup_probability = 1, cutmix_probability = 1;

  bool any() const { return mixup > 0 || cutmix > 0; }
  std::string describe() const;  // "mixup alpha 0.2"
};

// Throws ConfigError when a value is out of range: alpha in [0, 100], probabilities in [0, 1].
void check_mix(const Mix& mix);

// images [count x shape] and labels [count] as read, samples [count] their indices; partners and
// shares [count] are written: the label of b and the weight s of the label of a. scratch: one
// image. Allocates nothing.
void mix_batch(const Mix& mix, const AugmentKey& key, const ImageShape& shape, int64_t count,
               const int64_t* samples, const int32_t* labels, uint8_t* images, int32_t* partners,
               float* shares, uint8_t* scratch);

}  // namespace tessera
