// Simulated time, counters and planted failures.
#include <cstring>

#include "testing.h"

namespace cuda_double_tests {
namespace {

std::vector<cuda_double_done> done() {
  std::vector<cuda_double_done> all(static_cast<size_t>(cuda_double_list_done(nullptr, 0)));
  cuda_double_list_done(all.data(), static_cast<long>(all.size()));
  return all;
}

class Time : public WithSchedule {};
IN_EVERY_SCHEDULE(Time);

// Programming Guide, Overlap of Data Transfer and Kernel Execution: a copy overlaps with work of
// another stream, and follows earlier work of its own stream.
TEST_P(Time, CopiesOverlapWithOtherStreams) {
  constexpr size_t kBytes = 25'000'000;  // 1 ms of copying
  Stream compute, copies;
  OnDevice<char> a(kBytes), b(kBytes);
  Pinned<char> source(kBytes);
  cuda_double_forget_done();
  OK(cudaMemcpyAsync(a.data, source.data, kBytes, cudaMemcpyHostToDevice, copies));
  for (int i = 0; i < 50; ++i) OK(cudaMemsetAsync(b.data, 0, kBytes, compute));
  OK(cudaMemcpyAsync(a.data, source.data, kBytes, cudaMemcpyHostToDevice, copies));
  OK(cudaDeviceSynchronize());
  std::vector<cuda_double_done> copied, set;
  for (const cuda_double_done& one : done())
    (std::strcmp(one.name, "copy in") == 0 ? copied : set).push_back(one);
  ASSERT_EQ(copied.size(), 2u);
  ASSERT_EQ(set.size(), 50u);
  EXPECT_NEAR(copied[0].end - copied[0].start, 1e-3, 1e-9);
  EXPECT_LT(set[0].start, copied[0].end);
  EXPECT_GE(copied[1].start, copied[0].end);
  EXPECT_NE(copied[0].stream, set[0].stream);
  EXPECT_GE(cuda_double_now(), copied[1].end);
}

TEST_P(Time, TheHostPaysForCallsAndWaits) {
  Stream stream;
  const double before = cuda_double_now();
  OnDevice<char> x(3'000'000'0);
  EXPECT_NEAR(cuda_double_now() - before, 5e-6, 1e-12);
  cuda_double_pass(1);
  OK(cudaMemsetAsync(x.data, 0, x.bytes(), stream));
  stream.wait();
  EXPECT_NEAR(cuda_double_now() - before, 1 + 10e-6 + 10e-6, 6e-6);
}

TEST_P(Time, WhatIsAskedForIsCounted) {
  const cuda_double_counts before = cuda_double_counts_now();
  {
    Stream stream;
    OnDevice<int> x(1);
    Pinned<int> y(1);
    OK(cudaMemcpyAsync(x.data, y.data, 4, cudaMemcpyHostToDevice, stream));
    stream.wait();
  }
  const cuda_double_counts after = cuda_double_counts_now();
  EXPECT_EQ(after.allocations - before.allocations, 1);
  EXPECT_EQ(after.frees - before.frees, 1);
  EXPECT_EQ(after.pinned_allocations - before.pinned_allocations, 1);
  EXPECT_EQ(after.copies - before.copies, 1);
  EXPECT_EQ(after.waits - before.waits, 1);
  EXPECT_EQ(after.calls - before.calls, 8);
}

TEST_P(Time, WhatIsHeldIsTold) {
  const cuda_double_held before = cuda_double_held_now();
  {
    Stream stream;
    Event event;
    OnDevice<int> x(3);
    Pinned<int> y(5);
    const auto expect = [&](long graphs, long captures) {
      const cuda_double_held now = cuda_double_held_now();
      EXPECT_EQ(now.device_bytes - before.device_bytes, 12u);
      EXPECT_EQ(now.pinned_bytes - before.pinned_bytes, 20u);
      EXPECT_EQ(now.streams - before.streams, 1);
      EXPECT_EQ(now.events - before.events, 1);
      EXPECT_EQ(now.graphs - before.graphs, graphs);
      EXPECT_EQ(now.captures - before.captures, captures);
    };
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(x.data, 0, 4, stream));
    expect(0, 1);
    cudaGraph_t graph = nullptr;
    OK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t ready = nullptr;
    OK(cudaGraphInstantiate(&ready, graph, 0));
    expect(2, 0);
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(ready));
    expect(0, 0);
  }
  const cuda_double_held after = cuda_double_held_now();
  EXPECT_EQ(after.device_bytes, before.device_bytes);
  EXPECT_EQ(after.pinned_bytes, before.pinned_bytes);
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
}

class Failures : public WithSchedule {};
IN_EVERY_SCHEDULE(Failures);

TEST_P(Failures, TheNthAllocationAndTheNthCall) {
  void* block = nullptr;
  cuda_double_fail("malloc:2");
  OK(cudaMalloc(&block, 4));
  void* second = nullptr;
  EXPECT_EQ(cudaMalloc(&second, 4), cudaErrorMemoryAllocation);
  EXPECT_STREQ(cuda_double_failed_call(), "cudaMalloc");
  OK(cudaMalloc(&second, 4));
  cuda_double_fail("call:2");
  OK(cudaFree(block));
  EXPECT_EQ(cudaFree(second), cudaErrorUnknown);
  OK(cudaFree(second));
}

// Runtime API, cudaErrorIllegalAddress: it leaves the process in a state in which every further
// call gives the same error; the call that waits shows it, or any later call.
TEST_P(Failures, AStickyOneStays) {
  Stream stream;
  OnDevice<int> x(1);
  cuda_double_fail("sticky:call:2");
  OK(cudaMemsetAsync(x.data, 0, 4, stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  const long before = cuda_double_counts_now().calls_after_failure;
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemsetAsync(x.data, 0, 4, stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cuda_double_counts_now().calls_after_failure, before + 2);
  cuda_double_fail("");
  OK(cudaMemsetAsync(x.data, 0, 4, stream));
}

__global__ void nothing() {}

TEST_P(Failures, AKernelThatFailsShowsWhereItIsWaitedFor) {
  Stream stream;
  cuda_double_fail("sticky:kernel:3");
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = 1;
  config.stream = stream;
  for (int i = 0; i < 3; ++i) {
    const cudaError_t code = cuda_double::launch("nothing", config, nothing);
    EXPECT_TRUE(code == cudaSuccess || (i == 2 && code == cudaErrorIllegalAddress));
  }
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_STREQ(cuda_double_failed_call(), "nothing");
}

}  // namespace
}  // namespace cuda_double_tests
