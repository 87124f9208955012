// Common to all calls of the runtime: one caller at a time, simulated time passes, errors are
// stored, and after a sticky failure every call fails.
#pragma once

#include <mutex>
#include <utility>

#include "machine.h"
#include <cuda_runtime_api.h>

namespace cuda_double {

int current_device();
void set_current_device(int device);

// Stores `code` for cudaGetLastError.
cudaError_t remember(cudaError_t code);
cudaError_t take_last_error(bool forget);

// Counts the call. Returns an error if a sticky failure has happened or a failure is planted for
// this call.
cudaError_t enter(const char* name);

template <class Body>
cudaError_t call(const char* name, Body&& body) {
  std::lock_guard lock(Machine::get().mutex);
  const cudaError_t refused = enter(name);
  return remember(refused != cudaSuccess ? refused : std::forward<Body>(body)(Machine::get()));
}

// Puts work on `stream`, or into the graph that captures the stream.
cudaError_t issue(cudaStream_t stream, Operation operation);
// Called by functions that a capture forbids: invalidates the captures by this thread. Returns
// cudaSuccess if there are none.
cudaError_t unsafe_in_capture();
// Invalidates the capture of this stream and returns `code`.
cudaError_t invalidate(cudaStream_t stream, cudaError_t code);

}  // namespace cuda_double
