// Helpers for tests of the double: owners of runtime objects, and a schedule for each test. A test
// names the promise that it checks by the chapter of NVIDIA's manuals: "Runtime API" and
// "Programming Guide". On a card (TESSERA_ON_CARD) only tests of promises run.
#pragma once

#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#if !defined(TESSERA_ON_CARD)
#include "double.h"
#endif

namespace cuda_double_tests {

#if defined(TESSERA_ON_CARD)
inline constexpr bool kSimulated = false;
inline void cuda_double_schedule(const char*) {}
inline void cuda_double_fail(const char*) {}
#else
inline constexpr bool kSimulated = true;
#endif

// For tests of additions of the double: other schedules, and aborts on undefined behavior.
#define ONLY_SIMULATED() \
  if (!kSimulated) GTEST_SKIP() << "not promised of a card"

// Returns why a test cannot run here in that schedule; empty if it can.
inline std::string why_not_here(const std::string& schedule) {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess || devices == 0) return cudaGetErrorString(code);
  return kSimulated || schedule == "eager" ? "" : "a card keeps a schedule of its own";
}

#define OK(call) ASSERT_EQ(call, cudaSuccess)
#define OK_VALUE(call) EXPECT_EQ(call, cudaSuccess)  // for functions with a result

class WithSchedule : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_not_here(GetParam()); !reason.empty())
      GTEST_SKIP() << reason;
    cuda_double_schedule(GetParam());
  }
  void TearDown() override {
    cuda_double_fail("");
    cuda_double_schedule("eager");
  }
};

#define IN_EVERY_SCHEDULE(suite)                                                                 \
  INSTANTIATE_TEST_SUITE_P(Schedules, suite,                                                     \
                           testing::Values("eager", "lazy", "random:1", "random:2", "random:3"), \
                           [](const auto& info) {                                                \
                             std::string name = info.param;                                      \
                             if (name.find(':') != std::string::npos)                            \
                               name.erase(name.find(':'), 1);                                    \
                             return name;                                                        \
                           })

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return handle; }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(handle), cudaSuccess); }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming), cudaSuccess); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return handle; }
};

// Owns `count` values in device memory.
template <class T>
struct OnDevice {
  T* data = nullptr;
  size_t count;
  explicit OnDevice(size_t size) : count(size) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data), bytes()), cudaSuccess);
  }
  ~OnDevice() { cudaFree(data); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  size_t bytes() const { return count * sizeof(T); }

  void put(const std::vector<T>& values, cudaStream_t stream) {
    const size_t given = values.size() * sizeof(T);
    EXPECT_LE(given, bytes());
    EXPECT_EQ(cudaMemcpyAsync(data, values.data(), given, cudaMemcpyHostToDevice, stream),
              cudaSuccess);
  }
  std::vector<T> get(cudaStream_t stream) const {
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data, bytes(), cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }
};

template <class T>
struct Pinned {
  T* data = nullptr;
  size_t count;
  explicit Pinned(size_t size) : count(size) {
    EXPECT_EQ(cudaMallocHost(reinterpret_cast<void**>(&data), count * sizeof(T)), cudaSuccess);
  }
  ~Pinned() { cudaFreeHost(data); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
};

}  // namespace cuda_double_tests
