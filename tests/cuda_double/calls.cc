#include "calls.h"

#include <algorithm>

#include "captures.h"
#include "failures.h"

namespace cuda_double {
namespace {

constexpr double kCallSeconds = 5e-6;

thread_local int device = 0;
thread_local cudaError_t last = cudaSuccess;

}  // namespace

int current_device() { return device; }
void set_current_device(int index) { device = index; }

cudaError_t remember(cudaError_t code) {
  if (code != cudaSuccess) last = code;
  return code;
}

cudaError_t take_last_error(bool forget) {
  const cudaError_t sticky = Machine::get().sticky;
  const cudaError_t code = sticky != cudaSuccess ? sticky : last;
  if (forget) last = cudaSuccess;
  return code;
}

cudaError_t enter(const char* name) {
  Machine& machine = Machine::get();
  machine.now += kCallSeconds;
  ++machine.counters.calls;
  if (machine.sticky != cudaSuccess) {
    ++machine.counters.calls_after_failure;
    return machine.sticky;
  }
  if (fails("sticky:call", name)) machine.sticky = cudaErrorIllegalAddress;
  return fails("call", name) ? cudaErrorUnknown : machine.sticky;
}

cudaError_t issue(cudaStream_t stream, Operation operation) {
  Machine& machine = Machine::get();
  if (stream == nullptr) broken(operation.name + " on the default stream");
  if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    add_node(*stream, std::move(operation));
    return cudaSuccess;
  }
  machine.enqueue(stream, std::move(operation));
  return machine.sticky;
}

}  // namespace cuda_double
