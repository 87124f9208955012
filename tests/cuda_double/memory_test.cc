// Memory on the double.
#include <cmath>
#include <cstring>

#include "testing.h"

namespace cuda_double_tests {
namespace {

class Memory : public WithSchedule {};
IN_EVERY_SCHEDULE(Memory);

// Programming Guide, Device Memory Accesses: blocks of cudaMalloc start at multiples of 256.
// Runtime API, Memory Management: the contents of a new block are undefined.
TEST_P(Memory, BlocksAreAlignedAndHoldNoValues) {
  Stream stream;
  for (const size_t count : {1, 3, 64, 1000}) {
    OnDevice<float> x(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data) % 256, 0u);
    for (const float value : x.get(stream)) EXPECT_TRUE(std::isnan(value));
    x.put(std::vector<float>(count, 1.0f), stream);
    stream.wait();
  }
}

// Runtime API, Memory Management: allocated bytes are not free; if there is no memory,
// cudaErrorMemoryAllocation, which a later call does not repeat.
TEST_P(Memory, IsCounted) {
  size_t free = 0, total = 0, after = 0;
  OK(cudaMemGetInfo(&free, &total));
  void* block = nullptr;
  OK(cudaMalloc(&block, 1000));
  OK(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(after, free - 1000);
  void* much = nullptr;
  EXPECT_EQ(cudaMalloc(&much, after + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(much, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaGetLastError());
  OK(cudaFree(block));
  EXPECT_EQ(cudaFree(block), cudaErrorInvalidValue);
  OK(cudaFree(nullptr));
  OK(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(after, free);
}

// Runtime API, cudaMemcpyAsync: the kind must be that of the pointers, and the ranges must be
// within the blocks.
TEST_P(Memory, CopiesMustBeOfTheirKind) {
  Stream stream;
  OnDevice<int> x(4), y(4);
  Pinned<int> pinned(4);
  int host[4] = {};
  EXPECT_EQ(cudaMemcpyAsync(x.data, y.data, 16, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x.data, host, 16, cudaMemcpyDeviceToHost, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pinned.data, x.data, 16, cudaMemcpyDeviceToDevice, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x.data + 1, pinned.data, 16, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host, 0, 16, stream), cudaErrorInvalidValue);
  OK(cudaMemcpyAsync(x.data, pinned.data, 16, cudaMemcpyDefault, stream));
  OK(cudaMemcpyAsync(x.data, y.data, 16, cudaMemcpyDefault, stream));
  stream.wait();
}

__global__ void write_at(int* x, int at) { x[at] = 1; }

// Nothing is promised about bytes next to a block; the double finds writes to them.
TEST(MemoryFaults, AWriteBesideABlockIsFound) {
  const auto write = [](int at) {
    Stream stream;
    OnDevice<int> x(5);
    cudaLaunchConfig_t config{};
    config.gridDim = config.blockDim = 1;
    config.stream = stream;
    cuda_double::launch("write", config, write_at, x.data, at);
    stream.wait();
  };
  EXPECT_DEATH(write(5), "behind a block of 20 bytes|use-after-poison");
  EXPECT_DEATH(write(-1), "before a block of 20 bytes|use-after-poison");
  write(4);
}

// Programming Guide, Device Memory: the host must not access it.
TEST(MemoryFaults, AHostAccessIsFound) {
  const auto touch = [] {
    cuda_double_protect(1);
    Stream stream;
    OnDevice<int> x(5);
    OK(cudaMemsetAsync(x.data, 0, x.bytes(), stream));
    stream.wait();
    x.data[2] = 1;
  };
  EXPECT_DEATH(touch(), "host access to device memory");
}

// ... while kernels and copies may.
TEST(MemoryFaults, WorkOfTheDeviceIsNone) {
  const int before = cuda_double_protect(1);
  {
    Stream stream;
    OnDevice<int> x(5);
    x.put({1, 2, 3, 4, 5}, stream);
    cudaLaunchConfig_t config{};
    config.gridDim = config.blockDim = 1;
    config.stream = stream;
    OK(cuda_double::launch("write", config, write_at, x.data, 3));
    EXPECT_EQ(x.get(stream), (std::vector<int>{1, 2, 3, 1, 5}));
  }
  cuda_double_protect(before);
}

}  // namespace
}  // namespace cuda_double_tests
