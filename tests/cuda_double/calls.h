// What every call of the runtime has in common: one caller at a time, simulated time passes, errors
// are remembered, and after a failure that sticks nothing works any more.
#pragma once

#include <mutex>
#include <utility>

#include "machine.h"
#include <cuda_runtime_api.h>

namespace cuda_double {

int current_device();
void set_current_device(int device);

// What cudaGetLastError gives.
cudaError_t remember(cudaError_t code);
cudaError_t take_last_error(bool forget);

// Whether the call may go on: counts it, and fails it where a failure stands or is planted.
cudaError_t enter(const char* name);

template <class Body>
cudaError_t call(const char* name, Body&& body) {
  std::lock_guard lock(Machine::get().mutex);
  const cudaError_t refused = enter(name);
  return remember(refused != cudaSuccess ? refused : std::forward<Body>(body)(Machine::get()));
}

// Puts work on a stream, or into the graph that captures it.
cudaError_t issue(cudaStream_t stream, Operation operation);
// Of a call that a capture by this thread forbids: ends the capture, and says so.
cudaError_t unsafe_in_capture();
// The capture that this stream is part of is of no use any more.
cudaError_t invalidate(cudaStream_t stream, cudaError_t code);

}  // namespace cuda_double
