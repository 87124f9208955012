// CudaStream and CudaEvent: Stream and Event of a GPU. For files of the GPU back end: includes the
// vendor's headers.
#pragma once

#include <memory>

#include <cuda_runtime_api.h>

#include "tessera/runtime/stream.h"

namespace tessera {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int index);
  ~CudaEvent() override;
  bool done() const override;
  void synchronize() const override;
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int index);
  ~CudaStream() override;
  std::unique_ptr<Event> make_event() override;
  void record(Event& event) override;  // throws InternalError for an event that is not a CudaEvent
  void wait(const Event& event) override;
  void synchronize() override;
  // Captures a CUDA graph. If `issue` throws, ends and discards the capture.
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& issue) override;
  cudaStream_t handle() const { return handle_; }

 private:
  const int index_;
  cudaStream_t handle_ = nullptr;
  bool captures_ = false;
};

}  // namespace tessera
