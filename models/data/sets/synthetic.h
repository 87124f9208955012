// The synthetic data set: small generated colour images of ten classes, for use without a download.
//
// Each image shows one figure (disk, ring, square, frame, triangle, cross, star, stripes, checks,
// dots) with random position, size, rotation and colours, on a shaded background with clutter and
// noise: neither a colour nor a fixed pixel determines the class. An image depends only on (seed,
// split, index, size) and is made with exactly rounded operations, so its bytes are the same on
// every machine.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/models/data/dataset.h"

namespace tessera {

enum class SyntheticSplit { kTrain, kTest };

inline constexpr int kSyntheticClasses = 10;
inline constexpr int kSmallestSynthetic = 16, kLargestSynthetic = 512;  // pixels per side

// Returns `count` images [size x size x 3], 16 <= size <= 512, made whenever they are read (a 32x32
// one in tens of microseconds). Image i has the class i % 10. Throws ConfigError.
std::shared_ptr<const Dataset> synthetic(uint64_t seed, SyntheticSplit split, int64_t count,
                                         int size = 32);

}  // namespace tessera
