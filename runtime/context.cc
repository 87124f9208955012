#include "tessera/runtime/context.h"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

namespace {

// Nobody asked for a number of threads yet: without any the steps still run.
std::unique_ptr<ThreadPool> first_pool(int threads) {
  try {
    return std::make_unique<ThreadPool>(threads);
  } catch (const DeviceError&) {
    if (threads > 0) throw;
    return std::make_unique<ThreadPool>(1);
  }
}

}  // namespace

CpuContext::CpuContext(int threads)
    : Context(Device{}), pool_(first_pool(threads)), stream_(make_cpu_stream()) {}

void CpuContext::set_threads(int threads) {
  if (threads <= 0) threads = available_cores();
  if (threads != pool_->size()) pool_ = std::make_unique<ThreadPool>(threads);
}

void CpuContext::set_kernels(CpuKernels kernels) {
  if (kernels == CpuKernels::native && !has_native_kernels())
    throw DeviceError(
        fmt::format("native CPU kernels need AVX2 or AVX-512, but the instruction set in "
                    "use is {}; choose auto or eigen{}",
                    isa_name(current_isa()),
                    std::getenv("TESSERA_MAX_ISA") ? ", or unset TESSERA_MAX_ISA" : ""));
  kernels_ = kernels;
}

const char* CpuContext::kernels_name() const {
  return kernels_ == CpuKernels::eigen || !has_native_kernels() ? "eigen" : "native";
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
