// The context of one GPU: what a CUDA kernel is given to run with.
//
// Made at the first use of the device and never destroyed. All work of the engine on a GPU is
// issued on its one stream, in order; beside it only arguments of later steps are copied. The
// vendor's types appear by their own names of pointers only, so this header needs none of the
// vendor's. One thread at a time issues work.
#pragma once

#include <memory>

#include "tessera/runtime/context.h"

struct CUstream_st;      // cudaStream_t is a pointer to it
struct cublasLtContext;  // cublasLtHandle_t is a pointer to it
struct cudnnContext;     // cudnnHandle_t is a pointer to it

namespace tessera {

class CudaContext final : public Context {
 public:
  explicit CudaContext(int index);  // throws DeviceError
  // A part of that GPU (configure_devices), with memory of its own, which must outlive it.
  CudaContext(int index, Device part, RawMemory* memory);
  ~CudaContext() override;

  CUstream_st* cuda_stream();
  cublasLtContext* blas() { return blas_; }
  cudnnContext* dnn();  // on that stream; made, and cuDNN loaded, at the first call
  int multiprocessors() const;
  const DeviceProperties* properties() const override { return properties_.get(); }
  int index() const { return index_; }  // as CUDA counts, whatever part of the GPU this is

  RawMemory& memory() override { return part_memory_ != nullptr ? *part_memory_ : *memory_; }
  Stream& stream() override { return *stream_; }
  std::unique_ptr<Stream> make_stream() override;
  Stream& copy_stream() override { return *copy_stream_; }
  RawMemory& staging_memory() override { return *staging_memory_; }
  void issue_to_host(void* host, const void* device, size_t bytes, Stream& on) override;
  void issue_from_host(void* device, const void* host, size_t bytes, Stream& on) override;
  void copy_within(void* to, const void* from, size_t bytes) override;
  void fill(void* block, unsigned char value, size_t bytes) override;
  int64_t refused_updates() const override;  // waits for the stream
  void issue_refused_updates(void* to) override;
  int64_t* refused_counter() { return refused_.get(); }  // where kernels count them up

 private:
  const int index_;
  RawMemory* const part_memory_ = nullptr;
  std::unique_ptr<RawMemory> memory_, staging_memory_;
  std::unique_ptr<Stream> stream_, copy_stream_;
  std::unique_ptr<const DeviceProperties> properties_;
  cublasLtContext* blas_ = nullptr;
  cudnnContext* dnn_ = nullptr;
  std::shared_ptr<int64_t> refused_;
};

}  // namespace tessera
