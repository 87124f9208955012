// The functions of the CUDA runtime that the engine calls, under the vendor's declarations.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "block.h"
#include "calls.h"
#include "captures.h"
#include "failures.h"
#include "launch.h"
#include "memory.h"
#include <cuda_runtime_api.h>

namespace cuda_double {
namespace {

constexpr double kDeviceBytesPerSecond = 3e12, kCopyBytesPerSecond = 25e9, kLaunchSeconds = 2e-6;
constexpr size_t kMaxShared = size_t{48} << 10, kMaxParameters = 32764;

cudaError_t place_of_copy(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device, from_device = from == Place::device;
  const bool right = kind == cudaMemcpyDefault ||
                     (kind == cudaMemcpyHostToDevice && to_device && !from_device) ||
                     (kind == cudaMemcpyDeviceToHost && !to_device && from_device) ||
                     (kind == cudaMemcpyDeviceToDevice && to_device && from_device) ||
                     (kind == cudaMemcpyHostToHost && !to_device && !from_device);
  return right ? cudaSuccess : cudaErrorInvalidValue;
}

bool holds(const Region& region, const void* at, size_t bytes) {
  return region.place == Place::pageable ||
         static_cast<const char*>(at) + bytes <= region.begin + region.bytes;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  Machine& machine = Machine::get();
  const Region target = region_of(to), source = region_of(from);
  if (place_of_copy(kind, target.place, source.place) != cudaSuccess || !holds(target, to, bytes) ||
      !holds(source, from, bytes))
    return cudaErrorInvalidValue;
  const bool in = target.place == Place::device && source.place != Place::device;
  const bool out = target.place != Place::device && source.place == Place::device;
  const bool pageable = target.place == Place::pageable || source.place == Place::pageable;
  if (stream != nullptr && stream->capture != nullptr && pageable)
    return invalidate(stream, cudaErrorStreamCaptureUnsupported);
  Operation operation;
  operation.name = in ? "copy in" : out ? "copy out" : "copy within";
  operation.engine = in ? Engine::in : out ? Engine::out : Engine::compute;
  const auto size = static_cast<double>(bytes);
  operation.seconds = in || out ? size / kCopyBytesPerSecond : 2 * size / kDeviceBytesPerSecond;
  if (source.place == Place::pageable) {  // read before the call returns
    auto held = std::make_shared<std::vector<char>>(static_cast<const char*>(from),
                                                    static_cast<const char*>(from) + bytes);
    operation.run = [=] { std::memcpy(to, held->data(), bytes); };
  } else {
    operation.run = [=] {
      if (region_of(to).place != target.place || region_of(from).place != source.place)
        broken("pinned memory was freed before a copy from or to it was done");
      std::memmove(to, from, bytes);
    };
  }
  ++machine.counters.copies;
  const cudaError_t code = issue(stream, std::move(operation));
  if (code != cudaSuccess || !out || target.place != Place::pageable) return code;
  machine.wait_for(stream);  // pageable memory is written when the call returns
  machine.now = std::max(machine.now, stream->end);
  return machine.sticky;
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  Machine& machine = Machine::get();
  if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
  EventState& state = *event->state;
  Operation operation{"event", Engine::none, 0, {}, event->state, {}};
  if (stream->capture != nullptr && flags != cudaEventRecordExternal) {
    capture_record(*stream, state);
    return cudaSuccess;
  }
  state.capture = 0;
  if (stream->capture == nullptr) {
    operation.generation = ++state.recorded;
    state.stream = stream;
  }
  return issue(stream, std::move(operation));
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  Machine& machine = Machine::get();
  if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
  EventState& state = *event->state;
  if (captured(state)) return capture_wait(*stream, state);
  if (stream->capture != nullptr && flags != cudaEventWaitExternal)
    return invalidate(stream, cudaErrorStreamCaptureIsolation);
  Operation operation{"wait", Engine::none, 0, {}, {}, event->state, state.recorded};
  return issue(stream, std::move(operation));
}

cudaError_t waited(Machine& machine) {
  ++machine.counters.waits;
  check_red_zones();
  return machine.sticky;
}

}  // namespace

cudaError_t start(const char* name, const cudaLaunchConfig_t& config, size_t parameter_bytes,
                  unsigned max_threads, std::function<void()> thread) {
  return call(name, [&](Machine& machine) {
    const dim3 grid = config.gridDim, block = config.blockDim;
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > kMaxThreads ||
        block.z > 64 || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535 ||
        config.dynamicSmemBytes > kMaxShared)
      return cudaErrorInvalidConfiguration;
    if (parameter_bytes > kMaxParameters || threads > max_threads) return cudaErrorInvalidValue;
    Operation operation;
    operation.name = name;
    operation.engine = Engine::compute;
    const auto all = static_cast<double>(threads * grid.x * grid.y * grid.z);
    operation.seconds = kLaunchSeconds + all * 16 / kDeviceBytesPerSecond;
    operation.run = [=, shared = config.dynamicSmemBytes, thread = std::move(thread)] {
      Machine& now = Machine::get();
      if (fails("sticky:kernel", name)) {
        now.sticky = cudaErrorIllegalAddress;
        return;
      }
      now.kernel = name;
      run_grid(grid, block, shared, thread, now.kernel_seed());
      now.kernel.clear();
    };
    ++machine.counters.kernels;
    return issue(config.stream, std::move(operation));
  });
}

}  // namespace cuda_double

using namespace cuda_double;

extern "C" {

// --- devices ---

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&](Machine&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", [&](Machine&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](Machine&) {
    *count = device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&](Machine&) {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](Machine&) {
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    set_current_device(device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* about, int device) {
  return call("cudaGetDeviceProperties", [&](Machine&) {
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    *about = {};
    std::snprintf(about->name, sizeof about->name, "%s", kDeviceName);
    about->major = 9;
    about->minor = 0;
    about->totalGlobalMem = device_bytes();
    about->multiProcessorCount = kMultiprocessors;
    about->sharedMemPerBlock = kMaxShared;
    about->maxThreadsPerBlock = kMaxThreads;
    about->warpSize = 32;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&](Machine&) {
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMultiProcessorCount:
        *value = kMultiprocessors;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = static_cast<int>(kMaxShared);
        return cudaSuccess;
      default:
        return cudaErrorNotSupported;
    }
  });
}

cudaError_t cudaDeviceGetPCIBusId(char*, int, int) {  // it is on no bus
  return call("cudaDeviceGetPCIBusId", [&](Machine&) { return cudaErrorNotSupported; });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&](Machine& machine) {
    if (const cudaError_t code = unsafe_in_capture(); code != cudaSuccess) return code;
    machine.wait_for_device(current_device());
    return waited(machine);
  });
}

// --- errors ---

cudaError_t cudaGetLastError() {
  std::lock_guard lock(Machine::get().mutex);
  return take_last_error(true);
}

cudaError_t cudaPeekAtLastError() {
  std::lock_guard lock(Machine::get().mutex);
  return take_last_error(false);
}

// --- memory ---

cudaError_t cudaMalloc(void** block, size_t bytes) {
  return call("cudaMalloc", [&](Machine& machine) {
    *block = nullptr;
    if (const cudaError_t code = unsafe_in_capture(); code != cudaSuccess) return code;
    if (bytes == 0) return cudaSuccess;
    if (!fails("malloc", "cudaMalloc")) *block = take_device(current_device(), bytes);
    if (*block == nullptr) return cudaErrorMemoryAllocation;
    ++machine.counters.allocations;
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* block) {
  return call("cudaFree", [&](Machine& machine) {
    if (block == nullptr) return cudaSuccess;
    if (const cudaError_t code = unsafe_in_capture(); code != cudaSuccess) return code;
    const Region region = region_of(block);
    if (region.place == Place::device) machine.wait_for_device(region.device);
    if (!give_device(block)) return cudaErrorInvalidValue;
    ++machine.counters.frees;
    return machine.sticky;
  });
}

cudaError_t cudaHostAlloc(void** block, size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&](Machine& machine) {
    *block = nullptr;
    if (const cudaError_t code = unsafe_in_capture(); code != cudaSuccess) return code;
    if (bytes == 0) return cudaSuccess;
    if (!fails("pinned", "cudaHostAlloc")) *block = take_pinned(bytes);
    if (*block == nullptr) return cudaErrorMemoryAllocation;
    ++machine.counters.pinned_allocations;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** block, size_t bytes) {
  return cudaHostAlloc(block, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* block) {
  return call("cudaFreeHost", [&](Machine& machine) {
    if (block == nullptr) return cudaSuccess;
    if (const cudaError_t code = unsafe_in_capture(); code != cudaSuccess) return code;
    return give_pinned(block) ? machine.sticky : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call("cudaMemGetInfo", [&](Machine&) {
    *total = device_bytes();
    *free = device_bytes() - used_bytes(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* about, const void* address) {
  return call("cudaPointerGetAttributes", [&](Machine&) {
    const Region region = region_of(address);
    *about = {};
    about->type = region.place == Place::device   ? cudaMemoryTypeDevice
                  : region.place == Place::pinned ? cudaMemoryTypeHost
                                                  : cudaMemoryTypeUnregistered;
    about->device = region.device;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&](Machine&) { return copy(to, from, bytes, kind, stream); });
}

cudaError_t cudaMemsetAsync(void* block, int value, size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&](Machine& machine) {
    const Region region = region_of(block);
    if (region.place != Place::device || !holds(region, block, bytes)) return cudaErrorInvalidValue;
    ++machine.counters.sets;
    return issue(stream, {"set",
                          Engine::compute,
                          static_cast<double>(bytes) / kDeviceBytesPerSecond,
                          [=] { std::memset(block, value, bytes); },
                          {},
                          {}});
  });
}

// --- streams and events ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&](Machine& machine) {
    if (flags != cudaStreamNonBlocking) broken("a stream that waits for the default stream");
    *stream = machine.make_stream(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", [&](Machine& machine) {
    if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
    machine.end_stream(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&](Machine& machine) {
    if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return invalidate(stream, cudaErrorStreamCaptureUnsupported);
    machine.wait_for(stream);
    machine.now = std::max(machine.now, stream->end);
    return waited(machine);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", [&](Machine& machine) {
    if (!machine.is_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return invalidate(stream, cudaErrorStreamCaptureUnsupported);
    return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call("cudaStreamWaitEvent", [&](Machine&) { return wait(stream, event, flags); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call("cudaEventCreateWithFlags", [&](Machine& machine) {
    ++machine.events;
    *event = new CUevent_st{std::make_shared<EventState>()};
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&](Machine& machine) {
    --machine.events;
    delete event;  // work that records the event or waits for it keeps its state
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call("cudaEventRecordWithFlags", [&](Machine&) { return record(event, stream, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord",
              [&](Machine&) { return record(event, stream, cudaEventRecordDefault); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&](Machine& machine) {
    EventState& state = *event->state;
    if (captured(state)) return cudaErrorCapturedEvent;
    if (const cudaError_t code = unsafe_in_capture(); code != cudaSuccess) return code;
    if (state.happened < state.recorded) machine.asked(state);
    return state.happened < state.recorded ? cudaErrorNotReady : machine.sticky;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&](Machine& machine) {
    EventState& state = *event->state;
    if (captured(state)) return cudaErrorCapturedEvent;
    if (const cudaError_t code = unsafe_in_capture(); code != cudaSuccess) return code;
    machine.wait_for(state);
    machine.now = std::max(machine.now, state.at);
    return waited(machine);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call("cudaEventElapsedTime", [&](Machine&) {
    if (from->state->happened < from->state->recorded || to->state->happened < to->state->recorded)
      return cudaErrorNotReady;
    *milliseconds = static_cast<float>((to->state->at - from->state->at) * 1e3);
    return cudaSuccess;
  });
}
}
