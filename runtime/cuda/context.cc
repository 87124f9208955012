#include "tessera/runtime/cuda/context.h"

#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/cuda/dnn.h"
#include "tessera/runtime/error.h"

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

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int index) {
    CudaDeviceGuard guard(index);
    cuda_check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
  }
  ~CudaEvent() override {
    cuda_try([&] { return cudaEventDestroy(handle_); });
  }
  bool done() const override {
    cudaError_t state = cudaEventQuery(handle_);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // not an error: clear it for the next check
      return false;
    }
    cuda_check(state, "cudaEventQuery");
    return true;
  }
  void synchronize() const override {
    require_not_lost("cudaEventSynchronize");
    cuda_check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
  }
  // Throws InternalError for an event that is not a CudaEvent.
  static cudaEvent_t handle_of(const Event& event) {
    auto* cuda = dynamic_cast<const CudaEvent*>(&event);
    if (cuda == nullptr) throw InternalError("a GPU stream was given an event of another device");
    return cuda->handle_;
  }

 private:
  cudaEvent_t handle_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int index) : index_(index) {
    CudaDeviceGuard guard(index);
    cuda_check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  }
  ~CudaStream() override {
    cuda_try([&] { return cudaStreamDestroy(handle_); });
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(index_); }
  // In a capture the record becomes a node, so that each launch records the event for other
  // streams.
  void record(Event& event) override {
    const unsigned how = captures_ ? cudaEventRecordExternal : cudaEventRecordDefault;
    cuda_check(cudaEventRecordWithFlags(CudaEvent::handle_of(event), handle_, how),
               "cudaEventRecordWithFlags");
  }
  void wait(const Event& event) override {
    cuda_check(cudaStreamWaitEvent(handle_, CudaEvent::handle_of(event), 0), "cudaStreamWaitEvent");
  }
  void synchronize() override {
    require_not_lost("cudaStreamSynchronize");
    cuda_check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
  }
  // If `issue` throws, ends and discards the capture.
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& issue) override {
    CudaDeviceGuard guard(index_);
    CaptureScope scope(handle_, captures_);
    issue();
    return std::make_unique<CudaGraph>(scope.end(), handle_);
  }
  cudaStream_t handle() const { return handle_; }

 private:
  const int index_;
  cudaStream_t handle_ = nullptr;
  bool captures_ = false;
};

DeviceProperties properties_of(int index) {
  cudaDeviceProp about;
  cuda_check(cudaGetDeviceProperties(&about, index), "cudaGetDeviceProperties");
  return {.name = about.name,
          .major = about.major,
          .minor = about.minor,
          .multiprocessors = about.multiProcessorCount,
          .memory_bytes = static_cast<int64_t>(about.totalGlobalMem),
          .index = index};
}

}  // namespace

CudaContext::CudaContext(int index, Device device, RawMemory* memory)
    : Context(device),
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

CUstream_st* CudaContext::handle_of(Stream& stream) {
  return static_cast<CudaStream&>(stream).handle();
}

std::unique_ptr<Stream> CudaContext::make_stream() { return std::make_unique<CudaStream>(index_); }

void CudaContext::issue_to_host(void* host, const void* device, size_t bytes, Stream& on) {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, handle_of(on)),
             "cudaMemcpyAsync to the host");
}

void CudaContext::issue_from_host(void* device, const void* host, size_t bytes, Stream& on) {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, handle_of(on)),
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
