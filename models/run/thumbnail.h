// Small pictures within a page.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/models/data/dataset.h"

namespace tessera {

// "data:image/png;base64,...": an image [H x W x C] of one or three channels, made smaller by whole
// factors until no side has more than `most` (up to 128) pixels. "" for other counts of channels.
std::string thumbnail_uri(const uint8_t* image, const ImageShape& shape, int most = 64);

}  // namespace tessera
