// Microkernels of the norms: sums over rows for every channel. Each reads `rows` rows of `c`
// channels, `stride` elements apart, and adds the rows in a fixed order.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

inline constexpr int64_t kMomentChannels = 256;

template <class T>
struct ChannelMicrokernelsOf {
  using S = Computed<T>;
  // sum[j] = the sum of x[r][j]
  void (*sum)(const T* x, int64_t rows, int64_t stride, int64_t c, S* sum);
  // Computes the mean and the sum of squared deviations from it. Requires c <= kMomentChannels.
  void (*moments)(const T* x, int64_t rows, int64_t stride, int64_t c, S* mean, S* m2);
  // sums[j] = the sum of dy[r][j], products[j] = the sum of dy[r][j] (x[r][j] - mean[j]) scale[j];
  // the rows of x are x_stride elements apart
  void (*gradient_sums)(const T* dy, const T* x, const S* mean, const S* scale, int64_t rows,
                        int64_t stride, int64_t x_stride, int64_t c, S* sums, S* products);
};

struct ChannelMicrokernels {
  ChannelMicrokernelsOf<float> f32;
  ChannelMicrokernelsOf<double> f64;
  ChannelMicrokernelsOf<bfloat16> bf16;
};

TESSERA_DECLARE_MICROKERNELS(ChannelMicrokernels, channel_microkernels)

// Returns those of this processor's best instruction set.
template <class T>
const ChannelMicrokernelsOf<T>& channel_microkernels_of() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(channel_microkernels));
}

}  // namespace tessera
