// Stream capture and graphs on the double.
#include "testing.h"

namespace cuda_double_tests {
namespace {

class Captures : public WithSchedule {
 protected:
  cudaError_t begin(cudaStream_t stream) {
    return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  }
};
IN_EVERY_SCHEDULE(Captures);

struct Graph {
  cudaGraphExec_t exec = nullptr;
  size_t nodes = 0;
  explicit Graph(cudaGraph_t graph) {
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  ~Graph() { cudaGraphExecDestroy(exec); }
};

// Runtime API, Graph Management, cudaStreamBeginCapture: work that is captured does not run but
// becomes nodes; every launch runs it again.
TEST_P(Captures, WhatIsCapturedIsDoneAtEachLaunch) {
  Stream stream;
  OnDevice<int> x(1);
  Pinned<int> source(1), result(1);
  result.data[0] = 0;
  OK(begin(stream));
  OK(cudaMemcpyAsync(x.data, source.data, 4, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyAsync(result.data, x.data, 4, cudaMemcpyDeviceToHost, stream));
  cudaGraph_t captured = nullptr;
  OK(cudaStreamEndCapture(stream, &captured));
  Graph graph(captured);
  EXPECT_EQ(graph.nodes, 2u);
  stream.wait();
  EXPECT_EQ(result.data[0], 0);
  for (int round = 5; round < 8; ++round) {
    source.data[0] = round;
    OK(cudaGraphLaunch(graph.exec, stream));
    stream.wait();
    EXPECT_EQ(result.data[0], round);
  }
}

// Programming Guide, Cross-stream Dependencies and Events: a stream that waits for an event of a
// capture becomes part of it, and must join before the end.
TEST_P(Captures, StreamsJoinByEventsAndComeBack) {
  Stream stream, beside;
  Event out, back;
  OnDevice<int> a(1), b(1);
  OK(begin(stream));
  OK(cudaMemsetAsync(a.data, 1, 4, stream));
  OK(cudaEventRecord(out, stream));
  OK(cudaStreamWaitEvent(beside, out, 0));
  OK(cudaMemcpyAsync(b.data, a.data, 4, cudaMemcpyDeviceToDevice, beside));
  OK(cudaEventRecord(back, beside));
  OK(cudaStreamWaitEvent(stream, back, 0));
  OK(cudaMemsetAsync(a.data, 2, 4, stream));
  cudaGraph_t captured = nullptr;
  OK(cudaStreamEndCapture(stream, &captured));
  Graph graph(captured);
  EXPECT_EQ(graph.nodes, 3u);
  OK(cudaGraphLaunch(graph.exec, stream));
  EXPECT_EQ(b.get(stream)[0], 0x01010101);
  EXPECT_EQ(a.get(stream)[0], 0x02020202);
  OK(cudaMemsetAsync(a.data, 4, 4, beside));  // no longer captured
  beside.wait();

  OK(begin(stream));
  OK(cudaEventRecord(out, stream));
  OK(cudaStreamWaitEvent(beside, out, 0));
  OK(cudaMemsetAsync(b.data, 1, 4, beside));
  EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(captured, nullptr);
}

// Runtime API, Event Management, cudaEventRecordExternal: in a capture it makes a node that records
// the event at every launch, for streams outside.
TEST_P(Captures, ExternalEventsAreSeenOutside) {
  Stream stream, copies;
  Event read;
  OnDevice<int> slot(1), kept(1);
  OK(begin(stream));
  OK(cudaMemcpyAsync(kept.data, slot.data, 4, cudaMemcpyDeviceToDevice, stream));
  OK(cudaEventRecordWithFlags(read, stream, cudaEventRecordExternal));
  cudaGraph_t captured = nullptr;
  OK(cudaStreamEndCapture(stream, &captured));
  Graph graph(captured);
  EXPECT_EQ(graph.nodes, 2u);
  OK(cudaMemsetAsync(slot.data, 1, 4, stream));
  OK(cudaGraphLaunch(graph.exec, stream));
  OK(cudaStreamWaitEvent(copies, read, 0));
  OK(cudaMemsetAsync(slot.data, 2, 4, copies));
  copies.wait();
  EXPECT_EQ(kept.get(stream)[0], 0x01010101);
}

// Programming Guide, Prohibited and Unhandled Operations: a call that waits, or that cannot be
// captured, fails and invalidates the capture; later calls fail, too, until the capture is ended.
TEST_P(Captures, ForbiddenCallsSpoilTheCapture) {
  Stream stream;
  OnDevice<int> x(1);
  int pageable = 0;
  void* block = nullptr;
  const auto spoils = [&](const char* name, auto&& forbidden, cudaError_t expected) {
    SCOPED_TRACE(name);
    OK(begin(stream));
    OK(cudaMemsetAsync(x.data, 1, 4, stream));
    EXPECT_EQ(forbidden(), expected);
    EXPECT_EQ(cudaMemsetAsync(x.data, 1, 4, stream), cudaErrorStreamCaptureInvalidated);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    OK(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    OK(cudaMemsetAsync(x.data, 1, 4, stream));
    stream.wait();
  };
  const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;
  spoils(
      "stream", [&] { return cudaStreamSynchronize(stream); }, unsupported);
  spoils(
      "query", [&] { return cudaStreamQuery(stream); }, unsupported);
  spoils(
      "device", [&] { return cudaDeviceSynchronize(); }, unsupported);
  spoils(
      "malloc", [&] { return cudaMalloc(&block, 4); }, unsupported);
  spoils(
      "free", [&] { return cudaFree(x.data); }, unsupported);
  spoils(
      "pinned", [&] { return cudaMallocHost(&block, 4); }, unsupported);
  Event outside;
  OK(cudaEventRecord(outside, stream));
  spoils(
      "event", [&] { return cudaStreamWaitEvent(stream, outside, 0); },
      cudaErrorStreamCaptureIsolation);
  ONLY_SIMULATED();  // a card may capture a copy to pageable memory
  spoils(
      "pageable",
      [&] { return cudaMemcpyAsync(&pageable, x.data, 4, cudaMemcpyDeviceToHost, stream); },
      unsupported);
}

// Runtime API, Event Management: a captured event has no status that could be asked or waited for.
// The error, and what becomes of the capture, differ between drivers.
TEST_P(Captures, ACapturedEventIsNotWaitedFor) {
  Stream stream;
  Event event;
  OK(begin(stream));
  OK(cudaEventRecord(event, stream));
  EXPECT_NE(cudaEventQuery(event), cudaSuccess);
  EXPECT_NE(cudaEventSynchronize(event), cudaSuccess);
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) {
    OK(cudaGraphDestroy(graph));
  }
}

// Runtime API, Graph Management, cudaStreamEndCapture: a capture ends on the stream on which it
// began.
TEST_P(Captures, EndOnTheirOwnStream) {
  Stream stream, beside;
  Event event;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  OK(begin(stream));
  EXPECT_EQ(begin(stream), cudaErrorIllegalState);
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_NE(cudaStreamWaitEvent(beside, event, 0), cudaSuccess);
  OK(cudaGraphDestroy(graph));
  OK(begin(stream));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(beside, event, 0));
  EXPECT_EQ(cudaStreamEndCapture(beside, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

// Programming Guide, Graph Structure: unordered nodes run in any order; the random schedule shows
// more than one.
TEST(RandomCaptures, FreeNodesRunInAnyOrder) {
  ONLY_SIMULATED();
  cuda_double_schedule("random:3");
  Stream stream, beside;
  Event out, back;
  OnDevice<int> x(1);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(cudaEventRecord(out, stream));
  OK(cudaStreamWaitEvent(beside, out, 0));
  OK(cudaMemsetAsync(x.data, 1, 4, stream));
  OK(cudaMemsetAsync(x.data, 2, 4, beside));
  OK(cudaEventRecord(back, beside));
  OK(cudaStreamWaitEvent(stream, back, 0));
  cudaGraph_t captured = nullptr;
  OK(cudaStreamEndCapture(stream, &captured));
  Graph graph(captured);
  int seen[3] = {};
  for (int i = 0; i < 40; ++i) {
    OK(cudaGraphLaunch(graph.exec, stream));
    ++seen[x.get(stream)[0] & 3];
  }
  EXPECT_GT(seen[1], 0);
  EXPECT_GT(seen[2], 0);
  cuda_double_schedule("eager");
}

}  // namespace
}  // namespace cuda_double_tests
