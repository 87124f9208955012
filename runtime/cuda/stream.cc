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

}  // namespace

CudaEvent::CudaEvent(int index) {
  CudaDeviceGuard guard(index);
  cuda_check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreate");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(handle_); }

bool CudaEvent::done() const {
  cudaError_t state = cudaEventQuery(handle_);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // not an error: it must not show at the next check
    return false;
  }
  cuda_check(state, "cudaEventQuery");
  return true;
}

void CudaEvent::synchronize() const {
  cuda_check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
}

CudaStream::CudaStream(int index) : index_(index) {
  CudaDeviceGuard guard(index);
  cuda_check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreate");
}

CudaStream::~CudaStream() { cudaStreamDestroy(handle_); }

std::unique_ptr<Event> CudaStream::make_event() { return std::make_unique<CudaEvent>(index_); }

void CudaStream::record(Event& event) {
  cuda_check(cudaEventRecord(handle_of(event), handle_), "cudaEventRecord");
}

void CudaStream::wait(const Event& event) {
  cuda_check(cudaStreamWaitEvent(handle_, handle_of(event), 0), "cudaStreamWaitEvent");
}

void CudaStream::synchronize() {
  cuda_check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
}

}  // namespace tessera
