// Colour and geometric changes of a dense uint8 image [height x width x channels], for
// augmentation. Results equal those of the Pillow library if it has the same change. Images without
// three channels count as gray. Thread-safe. Allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tessera/models/data/augment/augment.h"

namespace tessera {

// These blend an image (factor 1) with black, its mean gray, gray or a blurred image (factor 0), in
// place if there is no `out`.
void change_brightness(const ImageShape& shape, uint8_t* image, double factor);
void change_contrast(const ImageShape& shape, uint8_t* image, double factor);
void change_saturation(const ImageShape& shape, uint8_t* image, double factor);
void change_sharpness(const ImageShape& shape, const uint8_t* in, uint8_t* out, double factor);

// Rotates hues in place by `turn` of the colour circle, in [-0.5, 0.5].
void change_hue(const ImageShape& shape, uint8_t* image, double turn);

// These change each channel separately, in place.
void stretch_contrast(const ImageShape& shape, uint8_t* image);     // to the whole of [0, 255]
void equalize(const ImageShape& shape, uint8_t* image);             // to a flat histogram
void posterize(const ImageShape& shape, uint8_t* image, int bits);  // keep `bits` bits, 1 to 8
void solarize(const ImageShape& shape, uint8_t* image, double threshold);  // invert >= threshold

// Computes out(x, y) = in(m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), the nearest pixel; black
// outside. Coordinates are in pixels from the upper left corner. Requires sides below 32768.
using Affine = std::array<double, 6>;
void warp(const ImageShape& shape, const uint8_t* in, uint8_t* out, const Affine& m);
// Returns the rotation by `degrees`, counter-clockwise, about the centre.
Affine rotation(const ImageShape& shape, double degrees);

// Makes a transform that keeps the shape of images; the arguments are those of Transform::apply().
using PixelChange = std::function<void(const ImageShape& shape, const uint8_t* in, uint8_t* out,
                                       RandomSequence& random)>;
TransformPtr pixel_transform(std::string text, PixelChange change);

}  // namespace tessera
