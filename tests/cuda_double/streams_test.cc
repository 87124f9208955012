// Streams, events and copies on the double.
#include <algorithm>
#include <numeric>

#include "testing.h"

namespace cuda_double_tests {
namespace {

class Streams : public WithSchedule {};
IN_EVERY_SCHEDULE(Streams);

// Runtime API, Stream Management, cudaStreamWaitEvent: later work waits for the work captured by
// the event's last record.
TEST_P(Streams, AWaitOrdersTwoStreams) {
  Stream first, second;
  Event event;
  OnDevice<int> a(100), b(100);
  Pinned<int> source(100), result(100);
  std::iota(source.data, source.data + 100, 7);
  OK(cudaMemcpyAsync(a.data, source.data, a.bytes(), cudaMemcpyHostToDevice, first));
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(second, event, 0));
  OK(cudaMemcpyAsync(b.data, a.data, a.bytes(), cudaMemcpyDeviceToDevice, second));
  OK(cudaMemcpyAsync(result.data, b.data, a.bytes(), cudaMemcpyDeviceToHost, second));
  second.wait();
  EXPECT_TRUE(std::equal(result.data, result.data + 100, source.data));
}

// Runtime API, Event Management: an event that was never recorded is complete, and waiting for it
// does nothing; recording again moves it.
TEST_P(Streams, AnEventIsItsLastRecord) {
  Stream stream;
  Event event;
  OnDevice<int> x(10);
  OK(cudaEventQuery(event));
  OK(cudaStreamWaitEvent(stream, event, 0));
  for (int round = 0; round < 3; ++round) {
    OK(cudaMemsetAsync(x.data, round, x.bytes(), stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaEventSynchronize(event));
    OK(cudaEventQuery(event));
  }
}

// Runtime API, Stream and Event Management: destroying either while work uses it does not affect
// that work.
TEST_P(Streams, WorkOutlivesItsHandles) {
  Stream other;
  OnDevice<int> x(10);
  Pinned<int> result(10);
  {
    Stream stream;
    Event event;
    OK(cudaMemsetAsync(x.data, 1, x.bytes(), stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
  }
  OK(cudaMemcpyAsync(result.data, x.data, x.bytes(), cudaMemcpyDeviceToHost, other));
  other.wait();
  EXPECT_EQ(result.data[9], 0x01010101);
}

// Runtime API, Memory Management, cudaFree: it waits for the work of the device. cudaFreeHost does
// not promise this.
TEST_P(Streams, FreeingWaits) {
  Stream stream;
  Pinned<int> result(10);
  int* block = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&block), 40));
  OK(cudaMemsetAsync(block, 2, 40, stream));
  OK(cudaMemcpyAsync(result.data, block, 40, cudaMemcpyDeviceToHost, stream));
  OK(cudaFree(block));
  EXPECT_EQ(result.data[0], 0x02020202);
}

// Runtime API, API synchronization behavior: a copy from pageable memory has read it when the call
// returns, a copy to pageable memory has written it.
TEST_P(Streams, PageableMemoryIsFreeWhenTheCallReturns) {
  Stream stream;
  OnDevice<int> x(10);
  std::vector<int> values(10, 5), back(10, 0);
  OK(cudaMemcpyAsync(x.data, values.data(), 40, cudaMemcpyHostToDevice, stream));
  values.assign(10, 6);
  OK(cudaMemcpyAsync(back.data(), x.data, 40, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(back, std::vector<int>(10, 5));
}

// API synchronization behavior: copies from pinned memory do not promise this.
TEST(LazyStreams, APinnedBufferThatIsReusedTooEarlyIsSeen) {
  ONLY_SIMULATED();
  cuda_double_schedule("lazy");
  Stream stream;
  OnDevice<int> x(1);
  Pinned<int> source(1);
  source.data[0] = 5;
  OK(cudaMemcpyAsync(x.data, source.data, 4, cudaMemcpyHostToDevice, stream));
  source.data[0] = 6;
  EXPECT_EQ(x.get(stream)[0], 6);
  cuda_double_schedule("eager");
}

TEST(LazyStreamsDeathTest, APinnedBufferThatIsFreedTooEarlyIsSeen) {
  ONLY_SIMULATED();
  const auto early = [] {
    cuda_double_schedule("lazy");
    Stream stream;
    OnDevice<int> x(1);
    {
      Pinned<int> result(1);
      OK(cudaMemcpyAsync(result.data, x.data, 4, cudaMemcpyDeviceToHost, stream));
    }
    stream.wait();
  };
  EXPECT_DEATH(early(), "freed before a copy");
}

// Stream Management: unordered streams may run in any order; lazily, a stream without waiters does
// nothing.
TEST(LazyStreams, OnlyWhatIsWaitedForIsDone) {
  ONLY_SIMULATED();
  cuda_double_schedule("lazy");
  Stream first, second;
  Event event;
  OnDevice<int> x(1);
  Pinned<int> result(1);
  result.data[0] = -1;
  OK(cudaMemsetAsync(x.data, 3, 4, first));
  OK(cudaEventRecord(event, first));
  OK(cudaMemcpyAsync(result.data, x.data, 4, cudaMemcpyDeviceToHost, first));
  OK(cudaStreamSynchronize(second));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  OK(cudaEventSynchronize(event));
  EXPECT_EQ(result.data[0], -1);
  first.wait();
  EXPECT_EQ(result.data[0], 0x03030303);
  cuda_double_schedule("eager");
}

// Event Management, cudaEventQuery: repeated queries see the event happen.
TEST_P(Streams, AskingLongEnoughSeesTheEnd) {
  Stream stream;
  Event event;
  OnDevice<int> x(1);
  OK(cudaMemsetAsync(x.data, 3, 4, stream));
  OK(cudaEventRecord(event, stream));
  int questions = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady && questions < 10'000) ++questions;
  EXPECT_LT(questions, 10'000);
}

TEST(RandomStreams, TheSeedDecides) {
  ONLY_SIMULATED();
  const auto trace = [](const char* schedule) {
    cuda_double_schedule(schedule);
    Stream first, second;
    OnDevice<int> x(2);
    Pinned<int> seen(50);
    OK_VALUE(cudaMemsetAsync(x.data, 0, 8, first));
    first.wait();
    for (int i = 0; i < 50; ++i) {
      OK_VALUE(cudaMemsetAsync(x.data, i, 4, first));
      OK_VALUE(cudaMemcpyAsync(seen.data + i, x.data, 4, cudaMemcpyDeviceToHost, second));
    }
    second.wait();
    return std::vector<int>(seen.data, seen.data + 50);
  };
  EXPECT_EQ(trace("random:5"), trace("random:5"));
  EXPECT_NE(trace("random:5"), trace("random:6"));
  EXPECT_NE(trace("random:5"), trace("eager"));
  cuda_double_schedule("eager");
}

}  // namespace
}  // namespace cuda_double_tests
