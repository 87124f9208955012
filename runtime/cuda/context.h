// CudaContext: the context of one GPU, passed to every CUDA kernel.
//
// Made at the first use of the device and never destroyed. All work of the engine on a GPU is
// issued on one stream, in order; only copies of arguments of later steps overlap with it. Vendor
// types are only forward-declared, so this header includes none of the vendor's headers. One thread
// at a time may issue work.
#pragma once

#include <memory>

#include "tessera/runtime/context.h"

struct CUstream_st;      // cudaStream_t is a pointer to it
struct cublasLtContext;  // cublasLtHandle_t is a pointer to it
struct cudnnContext;     // cudnnHandle_t is a pointer to it

namespace tessera {

class CudaContext final : public Context {
 public:
  // Makes the context of GPU `index`, or of a part of it (configure_devices) with memory of its
  // own, which must outlive the context. Throws DeviceError.
  CudaContext(int index, Device device, RawMemory* part_memory);
  ~CudaContext() override;

  CUstream_st* cuda_stream() { return handle_of(*stream_); }
  static CUstream_st* handle_of(Stream& stream);  // requires a stream of a GPU
  cublasLtContext* blas() { return blas_; }
  cudnnContext* dnn();  // uses stream(); the first call makes it and loads cuDNN
  int multiprocessors() const;
  const DeviceProperties* properties() const override { return properties_.get(); }
  int index() const { return index_; }  // CUDA's index of the physical GPU

  RawMemory& memory() override { return part_memory_ != nullptr ? *part_memory_ : *memory_; }
  Stream& stream() override { return *stream_; }
  std::unique_ptr<Stream> make_stream() override;
  Stream& copy_stream() override { return *copy_stream_; }
  RawMemory& staging_memory() override { return *staging_memory_; }
  void issue_to_host(void* host, const void* device, size_t bytes, Stream& on) override;
  void issue_from_host(void* device, const void* host, size_t bytes, Stream& on) override;
  void copy_within(void* to, const void* from, size_t bytes) override;
  void fill(void* block, unsigned char value, size_t bytes) override;
  int64_t skipped_updates() const override;  // waits for the stream
  void issue_skipped_updates(void* to) override;
  int64_t* skipped_counter() { return skipped_.get(); }  // incremented by kernels

 private:
  const int index_;
  RawMemory* const part_memory_ = nullptr;
  std::unique_ptr<RawMemory> memory_, staging_memory_;
  std::unique_ptr<Stream> stream_, copy_stream_;
  std::unique_ptr<const DeviceProperties> properties_;
  cublasLtContext* blas_ = nullptr;
  cudnnContext* dnn_ = nullptr;
  std::shared_ptr<int64_t> skipped_;
};

}  // namespace tessera
