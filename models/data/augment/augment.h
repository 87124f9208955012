// Transform: random augmentation of images while they are loaded. A list is applied in order.
//
// A transform makes one image of another. Its random numbers depend only on (seed, epoch, sample,
// index of the transform in the list), so the pixels are the same for any number of workers and any
// order of work. A new transform is a new function that returns one; nothing else has to change.
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

// Immutable after construction.
class Transform {
 public:
  virtual ~Transform() = default;
  // "crop padding 4 zero"
  virtual std::string describe() const = 0;
  // Returns the shape of the result. Throws ConfigError for images that it cannot take.
  virtual ImageShape output(const ImageShape& in) const { return in; }
  // Transforms in [shape] to out [output(shape)], which do not overlap. Allocates nothing.
  virtual void apply(const ImageShape& shape, const uint8_t* in, uint8_t* out,
                     RandomSequence& random) const = 0;
  // Returns the bytes that each thread keeps to apply the transform to such images.
  virtual size_t thread_bytes(const ImageShape&) const { return 0; }

  // Returns true if the transform cuts out a part, frame(), and scales it. The part can then be
  // read from a picture of any size; apply() does the same with a decoded image.
  virtual bool frames() const { return false; }
  virtual Box frame(const ImageShape& own, RandomSequence& random) const;
};

using TransformPtr = std::shared_ptr<const Transform>;
using Transforms = std::vector<TransformPtr>;

enum class CropBorder {
  kZero,     // black
  kReflect,  // mirrored, the border pixel not repeated: c b | a b c | b a
};

// Pads each side by `padding` pixels and cuts out the image's size at a random position, uniform
// over the (2 padding + 1)^2 positions. Requires images larger than the padding. Throws ConfigError
// if padding is negative.
TransformPtr crop(int padding, CropBorder border = CropBorder::kZero);

// Flip left and right, or up and down, with the given probability in [0, 1].
TransformPtr flip_horizontal(double probability = 0.5);
TransformPtr flip_vertical(double probability = 0.5);

// Rotates about the centre by an angle uniform in [-degrees, degrees], to the nearest pixel; black
// outside. `degrees` is in [0, 180].
TransformPtr rotate(double degrees);

// Cuts out a part at a random position and scales it to size x size; 0: to the size of the data
// set. Its area is `scale` [low, high] of the image's, uniform; its width / height is `ratio` [low,
// high], uniform in the logarithm. Should be the first transform: an image folder then cuts the
// part from the stored picture.
struct ResizeCrop {
  int size = 0;
  double scale[2] = {0.08, 1};
  double ratio[2] = {3.0 / 4, 4.0 / 3};
};
TransformPtr resize_crop(const ResizeCrop& settings = {});

// Paints a gray square of size x size and the given level, centred anywhere in the image, with the
// given probability.
TransformPtr cutout(int size, int level = 128, double probability = 1);

// Paints a rectangle with the given probability (Zhong et al., "Random Erasing Data Augmentation",
// 2020). Its area is `scale` [low, high] of the image's, uniform; its height / width is `ratio`
// [low, high], uniform in the logarithm. After ten draws that do not fit, the image stays as it is.
enum class EraseMode {
  kConst,  // gray of the given level
  kRand,   // one random colour
  kPixel,  // a random colour for each pixel
};
struct RandomErasing {
  double probability = 0.5;
  double scale[2] = {0.02, 0.33};
  double ratio[2] = {0.3, 3.3};
  EraseMode mode = EraseMode::kConst;
  int level = 0;  // for kConst
};
TransformPtr random_erasing(const RandomErasing& settings = {});

// Changes colours by random factors, uniform in [max(0, 1 - x), 1 + x], in random order. Hue is
// rotated by up to `hue` of the circle, at most 0.5. Gray images have no saturation and no hue.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
TransformPtr color_jitter(const ColorJitter& settings);

// Returns n transforms, each one of fourteen changes drawn at random, of strength `magnitude` out
// of 30 (Cubuk et al., "RandAugment", 2020): identity, autocontrast, equalize, rotate, solarize,
// posterize, colour, contrast, brightness, sharpness, shear and translation along x and y.
Transforms rand_augment(int n, int magnitude);

// Applies one of these changes with a strength drawn from 31 (Mueller, Hutter, "TrivialAugment",
// 2021, the wide ranges): rotation up to 135 degrees, shear up to 0.99, translation up to 32
// pixels, factors 1 +- 0.99, 6 bits.
TransformPtr trivial_augment();

// Returns the shape after all transforms.
ImageShape output_shape(const Transforms& augment, ImageShape in);

// Returns the bytes of scratch for augment_image(): twice the largest image that a transform reads
// or writes.
int64_t scratch_bytes(const Transforms& augment, ImageShape in);

// Applies the transforms from `first` on to one sample and writes out [output_shape], which is
// outside of scratch. Requires an image of `shape` at the start of scratch, as read or as the
// transforms before `first` left it. sample: index in the data set. Allocates nothing.
struct AugmentKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
};
void augment_image(const Transforms& augment, const AugmentKey& key, int64_t sample,
                   ImageShape shape, uint8_t* scratch, uint8_t* out, size_t first = 0);

// Returns true if the first transform cuts its part out of the data set's own pictures.
bool reads_parts(const Dataset& data, const Transforms& augment);
// Reads the sample with the first transform applied into `image` and returns its shape. Requires
// reads_parts(). The transforms from the second on remain to be applied.
ImageShape read_framed(const Dataset& data, const Transforms& augment, const AugmentKey& key,
                       int64_t sample, uint8_t* image);

}  // namespace tessera
