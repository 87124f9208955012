#include "tessera/runtime/context.h"

#include <cstring>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {

CpuContext::CpuContext(int threads)
    : Context(Device{}), pool_(std::make_unique<ThreadPool>(threads)), stream_(make_cpu_stream()) {}

void CpuContext::set_threads(int threads) {
  if (threads <= 0) threads = available_cores();
  if (threads != pool_->size()) pool_ = std::make_unique<ThreadPool>(threads);
}

RawMemory& CpuContext::memory() { return cpu_memory(); }

void CpuContext::copy_to_host(void* host, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

void CpuContext::copy_from_host(void* device, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void CpuContext::copy_within(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

CpuContext& cpu_context() {
  static CpuContext instance(0);
  return instance;
}

Context& context(Device device) {
  require_device(device);
  if (device.is_cpu()) return cpu_context();
  if constexpr (kCuda) return cuda_context(device.index);
  throw InternalError("a GPU passed require_device in a build without CUDA");
}

}  // namespace tessera
