// Streams, events and copies of a GPU, on memory that the GPU itself writes: a read that is too
// early sees old values.
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/context.h"

#if TESSERA_CUDA
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/tests/engine/gpu_schedule.h"

namespace tessera {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr unsigned char kOld = 1, kNew = 2;

class CudaStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
    where_ = &context({DeviceKind::gpu, 0});
    device_ = static_cast<unsigned char*>(where_->memory().allocate(kBytes));
    void* block = nullptr;
    cuda_check(cudaHostAlloc(&block, kBytes, cudaHostAllocDefault), "cudaHostAlloc");
    pinned_ = static_cast<unsigned char*>(block);
    set_pinned(kOld);
    cuda_check(cudaMemsetAsync(device_, kOld, kBytes, handle_of(where_->stream())), "memset");
    where_->synchronize();
    first_ = where_->make_stream();
    second_ = where_->make_stream();
  }
  void TearDown() override {
    if (where_ == nullptr) return;
    first_.reset();
    second_.reset();
    where_->synchronize();
    where_->memory().release(device_, kBytes);
    cudaFreeHost(pinned_);
  }

  static cudaStream_t handle_of(Stream& stream) { return CudaContext::handle_of(stream); }
  void set_pinned(unsigned char value) { std::memset(pinned_, value, kBytes); }
  void set_device(Stream& on, unsigned char value) {
    cuda_check(cudaMemsetAsync(device_, value, kBytes, handle_of(on)), "cudaMemsetAsync");
  }
  void copy_out(Stream& on) {
    cuda_check(cudaMemcpyAsync(pinned_, device_, kBytes, cudaMemcpyDeviceToHost, handle_of(on)),
               "cudaMemcpyAsync");
  }
  // Returns the first and last pinned byte.
  std::array<int, 2> ends() const { return {pinned_[0], pinned_[kBytes - 1]}; }
  static constexpr std::array<int, 2> kAllNew{kNew, kNew};

  const GpuSchedule schedule_{"lazy"};
  Context* where_ = nullptr;
  unsigned char *device_ = nullptr, *pinned_ = nullptr;
  std::unique_ptr<Stream> first_, second_;
};

TEST_F(CudaStreams, TheHostWaitsForAStream) {
  set_device(*first_, kNew);
  copy_out(*first_);
  first_->synchronize();
  EXPECT_EQ(ends(), kAllNew);
}

TEST_F(CudaStreams, TheHostWaitsForAnEvent) {
  const std::unique_ptr<Event> event = first_->make_event();
  set_device(*first_, kNew);
  copy_out(*first_);
  first_->record(*event);
  event->synchronize();
  EXPECT_TRUE(event->done());
  EXPECT_EQ(ends(), kAllNew);
}

TEST_F(CudaStreams, AStreamWaitsForAnother) {
  const std::unique_ptr<Event> event = first_->make_event();
  set_device(*first_, kNew);
  first_->record(*event);
  second_->wait(*event);
  copy_out(*second_);
  second_->synchronize();
  EXPECT_EQ(ends(), kAllNew);
}

// The source is memory that the GPU reads by itself.
TEST_F(CudaStreams, WhatIsCopiedFromTheHostMayBeChangedAtOnce) {
  set_pinned(kNew);
  where_->copy_from_host(device_, pinned_, kBytes);
  set_pinned(kOld);
  where_->synchronize();
  copy_out(*first_);
  first_->synchronize();
  EXPECT_EQ(ends(), kAllNew);
}

TEST_F(CudaStreams, WhatIsCopiedToTheHostIsThere) {
  set_device(where_->stream(), kNew);
  where_->copy_to_host(pinned_, device_, kBytes);
  EXPECT_EQ(ends(), kAllNew);
}

// Parts of a GPU have separate streams.
TEST(CudaParts, ACopyBetweenThemComesAfterWhatWasAndBeforeWhatWillBe) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  const GpuSchedule schedule("lazy");
  configure_devices({{"gpu:0", 2, 4 * kBytes}});
  const Device from{DeviceKind::gpu, 0}, to{DeviceKind::gpu, 1};
  Context &first = context(from), &second = context(to);
  void *there = first.memory().allocate(kBytes), *here = second.memory().allocate(kBytes);
  first.fill(there, kNew, kBytes);
  second.fill(here, kOld, kBytes);
  copy_bytes(to, here, from, there, kBytes);
  first.fill(there, kOld, kBytes);
  first.synchronize();
  std::vector<unsigned char> found(kBytes);
  second.copy_to_host(found.data(), here, kBytes);
  EXPECT_EQ(found, std::vector<unsigned char>(kBytes, kNew));
  first.memory().release(there, kBytes);
  second.memory().release(here, kBytes);
  configure_devices({});
}

}  // namespace
}  // namespace tessera
#endif
