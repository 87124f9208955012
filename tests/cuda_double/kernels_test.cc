// Kernels on the double: threads, barriers, shared memory, exchanges within a warp.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "testing.h"

#include "tessera/runtime/cuda/device_code.h"
#include "tessera/runtime/error.h"

namespace cuda_double_tests {
namespace {

using tessera::dynamic_shared;
using tessera::launch;

class Kernels : public WithSchedule {};
IN_EVERY_SCHEDULE(Kernels);

__global__ void count_visits(int* visits) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x,
                 y = blockIdx.y * blockDim.y + threadIdx.y,
                 z = blockIdx.z * blockDim.z + threadIdx.z;
  const unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  atomicAdd(&visits[(z * height + y) * width + x], 1);
}

// Programming Guide, Thread Hierarchy: a kernel runs once for each thread of each block.
TEST_P(Kernels, RunOnceForEveryThreadOfTheGrid) {
  Stream stream;
  OnDevice<int> visits(5 * 7 * 3 * 4 * 2 * 6);
  visits.put(std::vector<int>(visits.count, 0), stream);
  launch("visits", count_visits, dim3(5, 3, 2), dim3(7, 4, 6), 0, stream, visits.data);
  EXPECT_EQ(visits.get(stream), std::vector<int>(visits.count, 1));
}

__global__ void reverse(const float* in, float* out, bool with_barrier) {
  auto* const shared = dynamic_shared<float>();
  const unsigned base = blockIdx.x * blockDim.x;
  shared[threadIdx.x] = in[base + threadIdx.x];
  if (with_barrier) __syncthreads();
  out[base + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

// Programming Guide, Synchronization Functions: writes before __syncthreads are visible to the
// block after it. Without a barrier nothing is promised, and the double shows this.
TEST_P(Kernels, ABarrierIsNeededAndSuffices) {
  Stream stream;
  OnDevice<float> in(4 * 96), out(4 * 96);
  std::vector<float> values(in.count), reversed(in.count);
  std::iota(values.begin(), values.end(), 1.0f);
  for (size_t i = 0; i < values.size(); ++i) reversed[i] = values[i / 96 * 96 + 95 - i % 96];
  in.put(values, stream);
  launch("reverse", reverse, 4, 96, 96 * sizeof(float), stream, in.data, out.data, true);
  EXPECT_EQ(out.get(stream), reversed);
  if (!kSimulated) return;
  launch("reverse", reverse, 4, 96, 96 * sizeof(float), stream, in.data, out.data, false);
  EXPECT_NE(out.get(stream), reversed);
}

__global__ void use_again(int* wrong, bool with_barrier) {
  auto* const shared = dynamic_shared<int>();
  const int warps = static_cast<int>(blockDim.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) shared[threadIdx.x / 32] = 1;
  __syncthreads();
  const int sum = tessera::warp_sum(lane < warps ? shared[lane] : 0);
  if (with_barrier) __syncthreads();
  if (threadIdx.x == 0) shared[1] = 100;
  if (sum != warps) atomicAdd(wrong, 1);
}

// Programming Guide, Hardware Multithreading: the order of warps is undefined, so one may be far
// ahead of the others.
TEST_P(Kernels, AWarpRunsAheadOfTheOthers) {
  Stream stream;
  OnDevice<int> wrong(1);
  const auto run = [&](bool with_barrier) {
    wrong.put({0}, stream);
    launch("again", use_again, 64, 256, 8 * sizeof(int), stream, wrong.data, with_barrier);
    return wrong.get(stream)[0];
  };
  EXPECT_EQ(run(true), 0);
  if (std::string(GetParam()).starts_with("random")) {
    EXPECT_GT(run(false), 0);
  }
}

__global__ void read_shared(float* out) {
  auto* const shared = dynamic_shared<float>();
  out[threadIdx.x] = shared[threadIdx.x];
  __syncthreads();
  shared[threadIdx.x] = 1;
}

// Programming Guide, __shared__: the contents are undefined when a block starts, also after another
// block.
TEST_P(Kernels, SharedMemoryStartsWithoutValues) {
  ONLY_SIMULATED();
  Stream stream;
  OnDevice<float> out(32);
  launch("read", read_shared, 3, 32, 32 * sizeof(float), stream, out.data);
  for (const float value : out.get(stream)) EXPECT_TRUE(std::isnan(value));
}

template <int kThreads>
__global__ void sum_block(const float* in, float* out) {
  auto* const shared = dynamic_shared<float>();
  const float value = in[blockIdx.x * kThreads + threadIdx.x];
  const float once = tessera::block_sum<kThreads>(value, shared);
  __syncthreads();
  const float twice = tessera::block_sum<kThreads>(2 * value, shared);
  out[blockIdx.x * kThreads + threadIdx.x] = once + twice;
}

// The sums of device_code.h: every thread has them, with the same bits in every schedule.
template <int kThreads>
void expect_sums() {
  Stream stream;
  OnDevice<float> in(2 * kThreads), out(2 * kThreads);
  std::vector<float> values(in.count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(i + 1);
  in.put(values, stream);
  launch("sum", sum_block<kThreads>, 2, kThreads, tessera::block_values<kThreads>() * sizeof(float),
         stream, in.data, out.data);
  const std::vector<float> sums = out.get(stream);
  for (size_t block = 0; block < 2; ++block) {
    std::vector<float> tree(values.begin() + block * kThreads,
                            values.begin() + (block + 1) * kThreads);
    const auto fold = [](std::vector<float> part) {  // 32 values, summed by halves
      for (size_t half = 16; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i) part[i] += part[i + half];
      return part[0];
    };
    std::vector<float> warps(32, 0.0f);
    for (size_t w = 0; w < kThreads / 32; ++w)
      warps[w] = fold({tree.begin() + static_cast<std::ptrdiff_t>(w * 32),
                       tree.begin() + static_cast<std::ptrdiff_t>(w * 32 + 32)});
    const float sum = kThreads == 32 ? warps[0] : fold(warps);
    for (size_t i = 0; i < kThreads; ++i) EXPECT_EQ(sums[block * kThreads + i], sum + 2 * sum);
  }
}

TEST_P(Kernels, BlockSumsHaveOneShape) {
  expect_sums<32>();
  expect_sums<96>();
  expect_sums<256>();
  expect_sums<1024>();
}

__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int* const to = out + threadIdx.x * 5;
  to[0] = __shfl_sync(~0u, lane, 7);
  to[1] = __shfl_down_sync(~0u, lane, 3);
  to[2] = __shfl_up_sync(~0u, lane, 3);
  to[3] = __shfl_xor_sync(~0u, lane, 5, 8);
  if (lane < 16) to[4] = __shfl_sync(0xffffu, lane, 3, 4);
}

// Programming Guide, Warp Shuffle Functions: if the lane is outside of the part of the warp, the
// caller gets its own value; parts are `width` lanes wide; lanes outside of the mask take no part.
TEST_P(Kernels, ShufflesGoWhereTheManualSays) {
  Stream stream;
  OnDevice<int> out(64 * 5);
  launch("shuffles", shuffles, 1, 64, 0, stream, out.data);
  const std::vector<int> got = out.get(stream);
  for (size_t thread = 0; thread < 64; ++thread) {
    const int lane = static_cast<int>(thread % 32);
    const int* const of = got.data() + thread * 5;
    EXPECT_EQ(of[0], 7);
    EXPECT_EQ(of[1], lane + 3 < 32 ? lane + 3 : lane);
    EXPECT_EQ(of[2], lane >= 3 ? lane - 3 : lane);
    EXPECT_EQ(of[3], lane ^ 5);
    if (lane < 16) {
      EXPECT_EQ(of[4], lane / 4 * 4 + 3);
    }
  }
}

__global__ void packs(const float* in, float* out) {
  const int64_t i = tessera::first_index() * 4;
  auto values = tessera::load_pack<4>(in + i);
  for (int k = 0; k < 4; ++k) values[k] += 1;
  tessera::store_pack(out + i, values);
}

TEST_P(Kernels, PacksMoveSixteenBytes) {
  Stream stream;
  OnDevice<float> in(128), out(128);
  in.put(std::vector<float>(128, 2.0f), stream);
  EXPECT_TRUE(tessera::takes_packs<4>(in.data));
  EXPECT_FALSE(tessera::takes_packs<4>(in.data + 1));
  launch("packs", packs, 1, 32, 0, stream, in.data, out.data);
  EXPECT_EQ(out.get(stream), std::vector<float>(128, 3.0f));
}

__global__ void nothing() {}
template <int kBytes>
struct Parameters {
  char bytes[kBytes];
};
template <int kBytes>
__global__ void takes(Parameters<kBytes>) {}
template <class T>
constexpr int kBoundOf = 16 * sizeof(T);
__global__ void __launch_bounds__(96) bounded() {}
template <class A, class B>
__global__ void __launch_bounds__(kBoundOf<B>, 4) bounded_by_type() {}

// Programming Guide, Technical Specifications: blocks have 1 to 1024 threads, at most 64 of them
// deep, and 48 KiB of shared memory by default; grids have 65535 blocks in y and z; kernels take
// 32,764 bytes of parameters.
TEST(KernelLimits, AreKept) {
  if (const std::string reason = why_not_here("eager"); !reason.empty()) GTEST_SKIP() << reason;
  Stream stream;
  const auto refused = [&](dim3 grid, dim3 block, size_t shared) {
    EXPECT_THROW(launch("nothing", nothing, grid, block, shared, stream), tessera::DeviceError);
  };
  refused(0, 32, 0);
  refused(1, 0, 0);
  refused(1, 1025, 0);
  refused(1, dim3(1, 1, 65), 0);
  refused(dim3(1, 65536), 32, 0);
  refused(1, 32, (48 << 10) + 1);
  EXPECT_NO_THROW(launch("nothing", nothing, 1, 1024, 48 << 10, stream));
  EXPECT_NO_THROW(launch("takes", takes<32764>, 1, 1, 0, stream, Parameters<32764>{}));
#if !defined(TESSERA_ON_CARD)  // nvcc refuses this, and a card allows it
  EXPECT_THROW(launch("takes", takes<32768>, 1, 1, 0, stream, Parameters<32768>{}),
               tessera::DeviceError);
  EXPECT_DEATH(launch("nothing", nothing, 1, 1, 0, nullptr), "nothing on the default stream");
#endif
}

#if !defined(__clang__)  // the double has no launch bounds with clang
// Programming Guide, Launch Bounds: a kernel fails to launch with more threads per block than it
// was compiled for.
TEST(KernelLimits, AreThoseThatAKernelWasCompiledFor) {
  if (const std::string reason = why_not_here("eager"); !reason.empty()) GTEST_SKIP() << reason;
  Stream stream;
  const auto expect_bound = [&](void (*kernel)(), unsigned bound) {
    EXPECT_NO_THROW(launch("bounded", kernel, 1, bound, 0, stream));
    EXPECT_NO_THROW(launch("bounded", kernel, 1, dim3(1, bound / 2), 0, stream));
    EXPECT_THROW(launch("bounded", kernel, 1, bound + 1, 0, stream), tessera::DeviceError);
    EXPECT_THROW(launch("bounded", kernel, 1, dim3(bound, 2), 0, stream), tessera::DeviceError);
  };
  expect_bound(bounded, 96);
  expect_bound(bounded_by_type<int, char>, 16);
  expect_bound(bounded_by_type<char, double>, 128);
  EXPECT_NO_THROW(launch("unbounded", nothing, 1, 1024, 0, stream));
}
#endif

__global__ void some_skip_the_barrier() {
  if (threadIdx.x < 3) return;
  __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void half_a_warp() {
  if (threadIdx.x < 16) __shfl_sync(~0u, 1, 0);
  if (threadIdx.x >= 16) __syncthreads();
}
__global__ void outside_the_mask() { __shfl_sync(1u, 1, 0); }

// Programming Guide, Synchronization Functions and Warp Shuffle Functions: a barrier must be
// reached by the whole block, or by none of it; all lanes of a mask must arrive, including the
// caller.
TEST(KernelFaults, StopWithAMessage) {
  ONLY_SIMULATED();
  Stream stream;
  EXPECT_DEATH(launch("skip", some_skip_the_barrier, 1, 64, 0, stream), "have ended");
  EXPECT_DEATH(launch("two", two_barriers, 1, 64, 0, stream), "different __syncthreads");
  EXPECT_DEATH(launch("half", half_a_warp, 1, 32, 0, stream), "kernels_test.cc:.*never come");
  EXPECT_DEATH(launch("outside", outside_the_mask, 1, 2, 0, stream), "leaves it out");
}

}  // namespace
}  // namespace cuda_double_tests
