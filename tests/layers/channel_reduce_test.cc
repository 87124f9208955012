// A channel's sums have the same bits whatever its neighbours are.
#include <vector>

#include "tessera/layers/shared/channel_reduce_simd.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

template <class T>
std::vector<T> numbers(int64_t n, uint64_t key) {
  constexpr DType kType = sizeof(T) == sizeof(float) ? DType::f32 : DType::f64;
  return random_normal({n}, key, 1, 1, kType).to_vector<T>();
}

template <class T>
void expect_channels_apart(int64_t rows, int64_t c, int64_t stride) {
  const auto& kernels = microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(channel_microkernels));
  const auto x = numbers<T>(rows * stride, 1), dy = numbers<T>(rows * stride, 2);
  const auto mean = numbers<T>(c, 3), scale = numbers<T>(c, 4);
  const auto size = static_cast<size_t>(c);
  std::vector<T> sum(size), means(size), squares(size), sums(size), products(size);
  kernels.sum(x.data(), rows, stride, c, sum.data());
  if (c <= kMomentChannels)
    kernels.moments(x.data(), rows, stride, c, means.data(), squares.data());
  kernels.gradient_sums(dy.data(), x.data(), mean.data(), scale.data(), rows, stride, stride, c,
                        sums.data(), products.data());
  for (size_t j = 0; j < size; ++j) {
    T first = 0, second = 0;
    kernels.sum(&x[j], rows, stride, 1, &first);
    ASSERT_EQ(sum[j], first) << rows << " x " << c << ", channel " << j;
    if (c <= kMomentChannels) {
      kernels.moments(&x[j], rows, stride, 1, &first, &second);
      ASSERT_EQ(means[j], first) << rows << " x " << c << ", channel " << j;
      ASSERT_EQ(squares[j], second) << rows << " x " << c << ", channel " << j;
    }
    kernels.gradient_sums(&dy[j], &x[j], &mean[j], &scale[j], rows, stride, stride, 1, &first,
                          &second);
    ASSERT_EQ(sums[j], first) << rows << " x " << c << ", channel " << j;
    ASSERT_EQ(products[j], second) << rows << " x " << c << ", channel " << j;
  }
}

TEST(ChannelSums, DoNotDependOnTheOtherChannels) {
  for (const int64_t rows : {1, 2, 3, 4, 7, 64, 101})
    for (const int64_t c : {1, 3, 8, 16, 17, 24, 32, 33, 64, 65, 100, 128, 192, 256, 320}) {
      expect_channels_apart<float>(rows, c, c);
      expect_channels_apart<float>(rows, c, c + 5);
      expect_channels_apart<double>(rows, c, c);
    }
}

}  // namespace
}  // namespace tessera
