// A generated ten-class data set of small colour pictures, for use without any download.
//
// Each picture shows one figure (disk, ring, square, frame, triangle, cross, star, stripes, checks,
// dots) at a random place, size, turn and in random colours, on a shaded background with clutter
// and noise: neither a colour nor a fixed pixel tells the class. An image depends on (seed, split,
// index, size) alone and is made with exactly rounded operations only, so its bytes are the same
// everywhere.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/models/data/dataset.h"

namespace tessera {

enum class SyntheticSplit { kTrain, kTest };

inline constexpr int kSyntheticClasses = 10;
inline constexpr int kSmallestSynthetic = 16, kLargestSynthetic = 512;  // pixels a side

// Images [size x size x 3], 16 <= size <= 512, made whenever they are read (a 32x32 one in some
// tens of microseconds) and never kept. The classes take turns. Throws ConfigError.
std::shared_ptr<const Dataset> synthetic(uint64_t seed, SyntheticSplit split, int64_t count,
                                         int size = 32);

}  // namespace tessera
