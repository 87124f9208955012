#include "tessera/runtime/cuda/context.h"

#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/cuda/dnn.h"
#include "tessera/runtime/cuda/stream.h"

namespace tessera {
namespace {

// Makes a call with GPU `index` current, without CudaDeviceGuard, which may throw. Makes the call
// even if the device cannot be switched, because the driver finds the device of a block by its
// address.
template <class Call>
bool on_device(int index, Call&& call) noexcept {
  int outer = index;
  cuda_try([&] { return cudaGetDevice(&outer); });
  if (outer != index) cuda_try([&] { return cudaSetDevice(index); });
  const bool made = cuda_try(std::forward<Call>(call));
  if (outer != index) cuda_try([&] { return cudaSetDevice(outer); });
  return made;
}

// Returns nullptr if there is no memory.
template <class Allocate>
void* take_on_device(int index, std::string_view name, Allocate&& allocate) {
  CudaDeviceGuard guard(index);
  void* block = nullptr;
  const cudaError_t code = allocate(&block);
  if (code == cudaErrorMemoryAllocation) {
    forget_cuda_error();
    return nullptr;
  }
  cuda_check(code, name);
  return block;
}

class CudaMemory final : public RawMemory {
 public:
  explicit CudaMemory(int index) : index_(index) {}
  std::string name() const override { return Device{DeviceKind::gpu, index_}.name(); }
  size_t alignment() const override { return alignment_of({DeviceKind::gpu, index_}); }
  size_t available() const override {
    size_t free = 0, total = 0;
    return on_device(index_, [&] { return cudaMemGetInfo(&free, &total); }) ? free : kNoLimit;
  }

 protected:
  void* do_allocate(size_t bytes) override {
    return take_on_device(index_, "cudaMalloc",
                          [&](void** block) { return cudaMalloc(block, bytes); });
  }
  // cudaFree waits for the device, so no kernel still uses the block.
  void do_deallocate(void* block, size_t) noexcept override {
    on_device(index_, [&] { return cudaFree(block); });
  }

 private:
  const int index_;
};

// Pinned host memory, for copies that do not block the host.
class PageLockedMemory final : public RawMemory {
 public:
  explicit PageLockedMemory(int index) : index_(index) {}
  std::string name() const override {
    return "pinned host memory for " + Device{DeviceKind::gpu, index_}.name();
  }

 protected:
  void* do_allocate(size_t bytes) override {
    return take_on_device(index_, "cudaHostAlloc", [&](void** block) {
      return cudaHostAlloc(block, bytes, cudaHostAllocDefault);
    });
  }
  // Synchronizes first: an abandoned run may still have copies in flight, and cudaFreeHost is not
  // guaranteed to wait for them.
  void do_deallocate(void* block, size_t) noexcept override {
    on_device(index_, [] { return cudaDeviceSynchronize(); });
    cuda_try([&] { return cudaFreeHost(block); });
  }

 private:
  const int index_;
};

DeviceProperties properties_of(int index) {
  cudaDeviceProp about;
  cuda_check(cudaGetDeviceProperties(&about, index), "cudaGetDeviceProperties");
  DeviceProperties properties;
  properties.name = about.name;
  properties.major = about.major;
  properties.minor = about.minor;
  properties.multiprocessors = about.multiProcessorCount;
  properties.memory_bytes = static_cast<int64_t>(about.totalGlobalMem);
  properties.index = index;
  return properties;
}

}  // namespace

CudaContext::CudaContext(int index) : CudaContext(index, {DeviceKind::gpu, index}, nullptr) {}

CudaContext::CudaContext(int index, Device part, RawMemory* memory)
    : Context(part),
      index_(index),
      part_memory_(memory),
      memory_(std::make_unique<CudaMemory>(index)),
      staging_memory_(std::make_unique<PageLockedMemory>(index)),
      stream_(std::make_unique<CudaStream>(index)),
      copy_stream_(std::make_unique<CudaStream>(index)),
      properties_(std::make_unique<DeviceProperties>(properties_of(index))) {
  CudaDeviceGuard guard(index);
  const Blas& blas = tessera::blas();
  const auto own = std::make_shared<CudaMemory>(index);  // not part of the tensors' memory
  skipped_ = {static_cast<int64_t*>(own->allocate(sizeof(int64_t), "skipped updates")),
              [own](int64_t* counter) { own->release(counter, sizeof(int64_t)); }};
  CudaContext::fill(skipped_counter(), 0, sizeof(int64_t));
  cuda_check(blas.cublasLtCreate(&blas_), "cublasLtCreate");
}

CudaContext::~CudaContext() {
  if (device_is_lost()) return;
  if (dnn_ != nullptr) tessera::dnn().cudnnDestroy(dnn_);
  tessera::blas().cublasLtDestroy(blas_);
}

cudnnContext* CudaContext::dnn() {
  if (dnn_ != nullptr) return dnn_;
  CudaDeviceGuard guard(index_);
  cudnnContext* made = nullptr;
  cuda_check(tessera::dnn().cudnnCreate(&made), "cudnnCreate");
  dnn_ = made;
  cuda_check(tessera::dnn().cudnnSetStream(made, cuda_stream()), "cudnnSetStream");
  return dnn_;
}

int CudaContext::multiprocessors() const { return properties_->multiprocessors; }

CUstream_st* CudaContext::cuda_stream() { return static_cast<CudaStream&>(*stream_).handle(); }

std::unique_ptr<Stream> CudaContext::make_stream() { return std::make_unique<CudaStream>(index_); }

void CudaContext::issue_to_host(void* host, const void* device, size_t bytes, Stream& on) {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost,
                             static_cast<CudaStream&>(on).handle()),
             "cudaMemcpyAsync to the host");
}

void CudaContext::issue_from_host(void* device, const void* host, size_t bytes, Stream& on) {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice,
                             static_cast<CudaStream&>(on).handle()),
             "cudaMemcpyAsync from the host");
}

void CudaContext::issue_skipped_updates(void* to) {
  copy_within(to, skipped_counter(), sizeof(int64_t));
}

int64_t CudaContext::skipped_updates() const {
  int64_t count = 0;
  const_cast<CudaContext*>(this)->copy_to_host(&count, skipped_.get(), sizeof count);
  return count;
}

void CudaContext::copy_within(void* to, const void* from, size_t bytes) {
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda_stream()),
             "cudaMemcpyAsync within the device");
}

void CudaContext::fill(void* block, unsigned char value, size_t bytes) {
  if (bytes > 0) cuda_check(cudaMemsetAsync(block, value, bytes, cuda_stream()), "cudaMemsetAsync");
}

}  // namespace tessera
