// Changes of a dense uint8 image [height x width x channels], the building blocks of colour
// augmentation; results are those of the Pillow library where it has the same change. Images with
// other than three channels are taken as gray ones. Nothing allocates; thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "tessera/models/data/dataset.h"

namespace tessera {

// In place. factor 1 leaves the image as it is, 0 gives black, mean gray, gray, or a blurred image.
void change_brightness(const ImageShape& shape, uint8_t* image, double factor);
void change_contrast(const ImageShape& shape, uint8_t* image, double factor);
void change_saturation(const ImageShape& shape, uint8_t* image, double factor);
void change_sharpness(const ImageShape& shape, const uint8_t* in, uint8_t* out, double factor);

// In place. turn: the part of the colour circle that hues move, in [-0.5, 0.5].
void change_hue(const ImageShape& shape, uint8_t* image, double turn);

// In place, each channel for itself.
void stretch_contrast(const ImageShape& shape, uint8_t* image);     // to the whole of [0, 255]
void equalize(const ImageShape& shape, uint8_t* image);             // an even histogram
void posterize(const ImageShape& shape, uint8_t* image, int bits);  // keep so many bits, 1 to 8
void solarize(const ImageShape& shape, uint8_t* image, double threshold);  // invert from there on

// out at (x, y) is in at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), coordinates in pixels
// from the image's upper left corner, the nearest pixel; black outside. Sides below 32768.
using Affine = std::array<double, 6>;
void warp(const ImageShape& shape, const uint8_t* in, uint8_t* out, const Affine& m);
// Turns by so many degrees, counter-clockwise, about the middle.
Affine rotation(const ImageShape& shape, double degrees);

}  // namespace tessera
