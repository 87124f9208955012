#include "tessera/runtime/cuda/stream.h"

#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

cudaEvent_t handle_of(const Event& event) {
  auto* cuda = dynamic_cast<const CudaEvent*>(&event);
  if (cuda == nullptr) throw InternalError("a GPU stream was given an event of another device");
  return cuda->handle();
}

// Throws DeviceLost if the GPU is lost: destructors, which wait before they free memory, must not
// wait for it.
void require_not_lost(const char* call) {
  if (device_is_lost())
    throw DeviceLost(std::string(call) +
                     ": not called, because an earlier call found that the GPU is lost");
}

class CudaGraph final : public CapturedWork {
 public:
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    const char* call = "cudaGraphGetNodes";
    cudaError_t code = cudaGraphGetNodes(graph, nullptr, &nodes_);
    if (code == cudaSuccess) {
      call = "cudaGraphInstantiate";
      code = cudaGraphInstantiate(&graph_, graph, 0);
    }
    cuda_check(code, call);
  }
  ~CudaGraph() override {
    cuda_try([&] { return cudaGraphExecDestroy(graph_); });
  }
  void launch() override { cuda_check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch"); }
  size_t nodes() const override { return nodes_; }

 private:
  const cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  size_t nodes_ = 0;
};

// Ends a capture in its destructor, also after an exception.
class CaptureScope {
 public:
  CaptureScope(cudaStream_t stream, bool& goes_on) : stream_(stream), goes_on_(goes_on) {
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    goes_on_ = true;
  }
  ~CaptureScope() {
    goes_on_ = false;
    if (!ended_) cuda_try([&] { return cudaStreamEndCapture(stream_, &graph_); });
    if (graph_ != nullptr) cuda_try([&] { return cudaGraphDestroy(graph_); });
  }
  cudaGraph_t end() {  // still owned by the scope
    cuda_check(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
    ended_ = true;
    return graph_;
  }

 private:
  const cudaStream_t stream_;
  bool& goes_on_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

}  // namespace

CudaEvent::CudaEvent(int index) {
  CudaDeviceGuard guard(index);
  cuda_check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming),
             "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() {
  cuda_try([&] { return cudaEventDestroy(handle_); });
}

bool CudaEvent::done() const {
  cudaError_t state = cudaEventQuery(handle_);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // not an error: clear it for the next check
    return false;
  }
  cuda_check(state, "cudaEventQuery");
  return true;
}

void CudaEvent::synchronize() const {
  require_not_lost("cudaEventSynchronize");
  cuda_check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
}

CudaStream::CudaStream(int index) : index_(index) {
  CudaDeviceGuard guard(index);
  cuda_check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

CudaStream::~CudaStream() {
  cuda_try([&] { return cudaStreamDestroy(handle_); });
}

std::unique_ptr<Event> CudaStream::make_event() { return std::make_unique<CudaEvent>(index_); }

// In a capture the record becomes a node, so that each launch records the event for other streams.
void CudaStream::record(Event& event) {
  const unsigned how = captures_ ? cudaEventRecordExternal : cudaEventRecordDefault;
  cuda_check(cudaEventRecordWithFlags(handle_of(event), handle_, how), "cudaEventRecordWithFlags");
}

void CudaStream::wait(const Event& event) {
  cuda_check(cudaStreamWaitEvent(handle_, handle_of(event), 0), "cudaStreamWaitEvent");
}

void CudaStream::synchronize() {
  require_not_lost("cudaStreamSynchronize");
  cuda_check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
}

std::unique_ptr<CapturedWork> CudaStream::capture(const std::function<void()>& issue) {
  CudaDeviceGuard guard(index_);
  CaptureScope scope(handle_, captures_);
  issue();
  return std::make_unique<CudaGraph>(scope.end(), handle_);
}

}  // namespace tessera
