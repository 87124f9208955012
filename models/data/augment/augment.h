// Random transforms of images while they are loaded: a list, applied in order.
//
// A transform is an object that turns one image into another. Its random numbers depend on (seed,
// epoch, sample, index of the transform in the list) alone, so the pixels are the same for any
// number of workers and any order of work. A new one is a class of its own: nothing else has to
// change.
//
//   Transforms augment = {crop(4), flip_horizontal()};
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"
#include "tessera/runtime/random.h"

namespace tessera {

// Immutable, thread-safe.
class Transform {
 public:
  virtual ~Transform() = default;
  // "crop padding 4 zero"
  virtual std::string describe() const = 0;
  // The shape of the result; throws ConfigError when it cannot take such an image.
  virtual ImageShape output(const ImageShape& in) const { return in; }
  // in has the shape, out has output(shape); they do not overlap. Allocates nothing.
  virtual void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
                     RandomSequence& random) const = 0;
  // Memory that each thread keeps which applies it to such images.
  virtual size_t thread_bytes(const ImageShape&) const { return 0; }

  // A transform that cuts a part out and scales it says which, so that the part can be read from a
  // picture of any size; apply() does the same with an image that is there already.
  virtual bool frames() const { return false; }
  virtual Box frame(const ImageShape& own, RandomSequence& random) const;
};

using TransformPtr = std::shared_ptr<const Transform>;
using Transforms = std::vector<TransformPtr>;

enum class CropBorder {
  kZero,     // black
  kReflect,  // mirrored, the border pixel not repeated: c b | a b c | b a
};

// Puts `padding` pixels on each side and cuts the image's size out at a random place, uniform over
// the (2 padding + 1)^2 places. Throws ConfigError when padding is negative; the image must be
// larger than the padding.
TransformPtr crop(int padding, CropBorder border = CropBorder::kZero);

// Mirrors left and right with the given probability in [0, 1].
TransformPtr flip_horizontal(double probability = 0.5);

// Cuts out a part with `scale` [low, high] of the image's area, of `ratio` [low, high] width to
// height (uniform, the ratio in its logarithm), at a random place, and scales it to size x size; 0:
// to the size the data set has. Should be the first transform: an image folder then cuts it from
// the picture as it lies on the disk.
struct ResizeCrop {
  int size = 0;
  double scale[2] = {0.08, 1};
  double ratio[2] = {3.0 / 4, 4.0 / 3};
};
TransformPtr resize_crop(const ResizeCrop& settings = {});

// Paints a square of size x size over the image, gray of the given level, its centre anywhere in
// the image, with the given probability.
TransformPtr cutout(int size, int level = 128, double probability = 1);

// Changes colours by random factors, uniform in [1 - x, 1 + x] and not below 0, in random order;
// hue is turned by up to that part of the circle, at most 0.5. Gray images have no saturation and
// no hue.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
TransformPtr color_jitter(const ColorJitter& settings);

// Cubuk et al., "RandAugment" (2020): n times one of fourteen changes, drawn at random, of strength
// `magnitude` out of 30: none, contrast stretched, histogram made even, turned, inverted above a
// level, fewer bits, colour, contrast, brightness, sharpness, sheared and moved along x and y.
// These are n transforms of a list.
Transforms rand_augment(int n, int magnitude);

// The shape after all of them.
ImageShape output_shape(const Transforms& augment, ImageShape in);

// Bytes of scratch that augment_image() needs: twice the largest image that a transform reads or
// writes.
int64_t scratch_bytes(const Transforms& augment, ImageShape in);

// Applies all of them to one sample. scratch: its first shape.bytes() bytes hold the image as it
// was read; out: [output_shape], outside the scratch. sample: its index in the data set. Allocates
// nothing. first: those before it are done already, `shape` is what they left.
struct AugmentKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
};
void augment_image(const Transforms& augment, const AugmentKey& key, int64_t sample,
                   ImageShape shape, uint8_t* scratch, uint8_t* out, size_t first = 0);

// Whether the first transform cuts its part out of the data set's own pictures.
bool reads_parts(const Dataset& data, const Transforms& augment);
// For such lists, instead of reading the image: writes what the first one makes of it to `image`
// and returns its shape; those from the second on are left to do.
ImageShape read_framed(const Dataset& data, const Transforms& augment, const AugmentKey& key,
                       int64_t sample, uint8_t* image);

}  // namespace tessera
