// Random changes of images while they are loaded: a list of steps, applied in order.
//
// A step is an object that turns one image into another. Its random numbers depend on (seed, epoch,
// sample, place of the step in the list) alone, so the pixels are the same for any number of
// workers and any order of work. A new step is a class of its own: nothing else has to change.
//
//   Augment augment = {crop(4), flip_horizontal()};
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/runtime/data/dataset.h"
#include "tessera/runtime/random.h"

namespace tessera {

// Immutable, thread-safe.
class AugmentStep {
 public:
  virtual ~AugmentStep() = default;
  // "crop padding 4 zero"
  virtual std::string describe() const = 0;
  // The shape of the result; throws ConfigError when the step cannot take such an image.
  virtual ImageShape output(const ImageShape& in) const { return in; }
  // in has the shape, out has output(shape); they do not overlap. Allocates nothing.
  virtual void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
                     RandomSequence& random) const = 0;
};

using AugmentStepPtr = std::shared_ptr<const AugmentStep>;
using Augment = std::vector<AugmentStepPtr>;

enum class CropBorder {
  kZero,     // black
  kReflect,  // mirrored, the border pixel not repeated: c b | a b c | b a
};

// Puts `padding` pixels on each side and cuts the image's size out at a random place, uniform over
// the (2 padding + 1)^2 places. Throws ConfigError when padding is negative; for kReflect the image
// must be larger than the padding.
AugmentStepPtr crop(int padding, CropBorder border = CropBorder::kZero);

// Mirrors left and right with the given probability in [0, 1].
AugmentStepPtr flip_horizontal(double probability = 0.5);

// The shape after all steps.
ImageShape output_shape(const Augment& augment, ImageShape in);

// Bytes of scratch that augment_image() needs: twice the largest image that a step reads or writes.
int64_t scratch_bytes(const Augment& augment, ImageShape in);

// Applies all steps to one sample. scratch: its first shape.bytes() bytes hold the image as it was
// read; out: [output_shape], outside the scratch. sample: its index in the data set. Allocates
// nothing.
struct AugmentKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
};
void augment_image(const Augment& augment, const AugmentKey& key, int64_t sample, ImageShape shape,
                   uint8_t* scratch, uint8_t* out);

}  // namespace tessera
