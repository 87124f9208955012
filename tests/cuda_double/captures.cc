#include "captures.h"

#include <algorithm>

#include "calls.h"

namespace cuda_double {
namespace {

// Captures in progress.
std::vector<CUgraph_st*>& captures() {
  static auto* const all = new std::vector<CUgraph_st*>;
  return *all;
}

CUgraph_st* capture_of(const EventState& event) {
  const auto it = std::find_if(captures().begin(), captures().end(),
                               [&](const CUgraph_st* g) { return g->number == event.capture; });
  return it == captures().end() ? nullptr : *it;
}

// Returns the nodes in a valid order: as they were captured, or another one drawn by the seed.
std::vector<size_t> launch_order(const CUgraphExec_st& graph) {
  std::vector<size_t> order, left(graph.nodes.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = i;
  std::vector<bool> done(left.size());
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < left.size() && ready.size() < 8; ++i) {
      const std::vector<size_t>& after = graph.nodes[left[i]].after;
      if (std::all_of(after.begin(), after.end(), [&](size_t node) { return done[node]; }))
        ready.push_back(i);
    }
    const size_t taken = ready[Machine::get().random_below(ready.size())];
    order.push_back(left[taken]);
    done[left[taken]] = true;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  return order;
}

void merge(std::vector<size_t>& into, const std::vector<size_t>& more) {
  for (size_t node : more)
    if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
}

void leave(CUgraph_st& graph) {
  for (CUstream_st* stream : graph.streams) {
    stream->capture = nullptr;
    stream->tips.clear();
  }
  graph.streams.clear();
  std::erase(captures(), &graph);
}

// Returns true if the last work of every stream of the capture has joined the stream that began it.
bool joined(const CUgraph_st& graph) {
  std::vector<bool> reached(graph.nodes.size());
  std::vector<size_t> next = graph.origin->tips;
  while (!next.empty()) {
    const size_t node = next.back();
    next.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    for (size_t before : graph.nodes[node].after) next.push_back(before);
  }
  return std::all_of(graph.streams.begin(), graph.streams.end(), [&](const CUstream_st* s) {
    return std::all_of(s->tips.begin(), s->tips.end(), [&](size_t node) { return reached[node]; });
  });
}

cudaError_t end_capture(CUstream_st& stream, cudaGraph_t* made) {
  *made = nullptr;
  CUgraph_st* const graph = stream.capture;
  if (graph == nullptr) return cudaErrorIllegalState;
  if (graph->origin != &stream) return graph->invalid = true, cudaErrorStreamCaptureUnmatched;
  if (graph->thread != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
  cudaError_t code = cudaSuccess;
  if (graph->invalid)
    code = cudaErrorStreamCaptureInvalidated;
  else if (!joined(*graph))
    code = cudaErrorStreamCaptureUnjoined;
  leave(*graph);
  if (code == cudaSuccess)
    *made = graph;
  else
    delete graph;
  if (code == cudaSuccess) ++Machine::get().graphs;
  return code;
}

}  // namespace

void add_node(CUstream_st& stream, Operation operation) {
  CUgraph_st& graph = *stream.capture;
  graph.nodes.push_back({std::move(operation), stream.tips});
  stream.tips = {graph.nodes.size() - 1};
}

void capture_record(CUstream_st& stream, EventState& event) {
  event.capture = stream.capture->number;
  event.nodes = stream.tips;
}

cudaError_t capture_wait(CUstream_st& stream, EventState& event) {
  CUgraph_st* const graph = capture_of(event);
  if (graph == nullptr) return cudaErrorCapturedEvent;
  if (stream.capture == nullptr) {
    stream.capture = graph;
    graph->streams.push_back(&stream);
  } else if (stream.capture != graph) {
    return invalidate(&stream, cudaErrorStreamCaptureMerge);
  }
  merge(stream.tips, event.nodes);
  return cudaSuccess;
}

long captures_begun() { return static_cast<long>(captures().size()); }

bool captured(const EventState& event) { return event.capture != 0; }

cudaError_t invalidate(cudaStream_t stream, cudaError_t code) {
  if (stream->capture != nullptr) stream->capture->invalid = true;
  return code;
}

cudaError_t unsafe_in_capture() {
  bool found = false;
  for (CUgraph_st* graph : captures())
    if (graph->thread == std::this_thread::get_id()) graph->invalid = found = true;
  return found ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

}  // namespace cuda_double

using namespace cuda_double;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](Machine& machine) {
    if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return cudaErrorIllegalState;
    if (mode != cudaStreamCaptureModeThreadLocal)
      broken("captures are thread-local: others forbid calls to other threads");
    static uint64_t made = 0;
    auto* graph = new CUgraph_st;
    graph->number = ++made;
    graph->origin = stream;
    graph->streams = {stream};
    graph->thread = std::this_thread::get_id();
    stream->capture = graph;
    stream->tips.clear();
    captures().push_back(graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", [&](Machine& machine) {
    return machine.is_stream(stream) ? end_capture(*stream, graph) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&](Machine& machine) {
    if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&](Machine& machine) {
    --machine.graphs;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call("cudaGraphGetNodes", [&](Machine&) {
    if (nodes != nullptr) return cudaErrorNotSupported;
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call("cudaGraphInstantiate", [&](Machine& machine) {
    ++machine.graphs;
    *made = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return call("cudaGraphExecDestroy", [&](Machine& machine) {
    --machine.graphs;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return call("cudaGraphUpload", [&](Machine&) { return cudaSuccess; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&](Machine& machine) {
    if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return invalidate(stream, cudaErrorStreamCaptureUnsupported);
    ++machine.counters.graph_launches;
    for (const size_t node : launch_order(*graph)) {
      Operation operation = graph->nodes[node].operation;
      if (operation.records) {
        operation.generation = ++operation.records->recorded;
        operation.records->stream = stream;
      }
      if (operation.waits) operation.generation = operation.waits->recorded;
      machine.enqueue(stream, std::move(operation));
    }
    return machine.sticky;
  });
}
}
