// Where a kernel runs. A kernel is an overload on CpuContext& or CudaContext&; both are made once a
// device and live as long as the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tessera/runtime/device.h"
#include "tessera/runtime/raw_memory.h"
#include "tessera/runtime/stream.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// Where blocks for tensors of a device start: at multiples of so many bytes. On GPUs as their
// driver gives memory out, and as their libraries take it for given.
constexpr size_t alignment_of(Device device) { return device.is_cpu() ? kMemoryAlignment : 256; }

struct DeviceFacts;  // runtime/cuda/facts.h

// Who computes matrix products and convolutions on the CPU: the kernels written for AVX2 and
// AVX-512, or Eigen, which runs everywhere. automatic: native where they run, else eigen.
enum class CpuKernels { automatic, native, eigen };

// Whether native convolutions of float32 with 3x3 filters are computed by Winograd's algorithm
// where that takes less time by their shape. It rounds a little more than the sums themselves.
enum class Winograd { automatic, off };

// How the CPU computes.
struct CpuSettings {
  CpuKernels kernels = CpuKernels::automatic;
  Winograd winograd = Winograd::automatic;
  bool operator==(const CpuSettings&) const = default;
};

// Which of cuDNN's plans is taken of those that are allowed: the one that it takes for the fastest
// itself, or the one that was when `trainer tune` measured them here.
enum class GpuPlans { rule, tuned };

// How GPUs compute. Steps that are prepared already keep what was set then.
struct GpuSettings {
  bool tf32 = false;          // products and convolutions of float32 with ten bits of mantissa
  bool deterministic = true;  // only algorithms that give the same bits each time
  size_t workspace = size_t{256} << 20;  // bytes that one op may take for scratch at most
  bool synchronous = false;  // wait after each op, so that errors of kernels name theirs; slow
  GpuPlans plans = GpuPlans::rule;
  bool operator==(const GpuSettings&) const = default;
};
const GpuSettings& gpu_settings();
void set_gpu_settings(const GpuSettings& settings);  // not while another thread prepares steps

// What an op chooses its algorithm by: facts of a device that is there, or only described.
struct Target {
  Device device;
  int threads = 1;  // of the host, that one kernel may use at once
  CpuSettings cpu = {};
  const DeviceFacts* facts = nullptr;  // of a GPU; nullptr where nobody knows them
  GpuSettings gpu = {};
  bool operator==(const Target&) const = default;
};

class Context {
 public:
  virtual ~Context() = default;
  Device device() const { return device_; }
  Target target() const;
  // The machine's memory for tensors on this device.
  virtual RawMemory& memory() = 0;
  // The stream that kernels issue their work on.
  virtual Stream& stream() = 0;
  // Another stream, for work that may go on beside it.
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // The one that arguments of later steps come on; of a CPU stream().
  virtual Stream& copy_stream() { return stream(); }
  // The host's memory for what this device copies from and to beside other work; of the CPU
  // memory(). On a GPU it is page-locked.
  virtual RawMemory& staging_memory() { return memory(); }
  // Host threads that one kernel may use at once.
  virtual int threads() const { return 1; }
  // Of a GPU; nullptr for the CPU and where nobody knows them.
  virtual const DeviceFacts* facts() const { return nullptr; }
  // A device that is only described: steps are planned for it, and nothing runs.
  virtual bool plans_only() const { return false; }
  // Returns when everything issued on stream() so far is done.
  void synchronize() { stream().synchronize(); }
  // Copies between this device and the host, issued on one of its streams. The host's bytes are
  // there, or may be written again, when the stream has got that far.
  virtual void issue_to_host(void* host, const void* device, size_t bytes, Stream& on) = 0;
  virtual void issue_from_host(void* device, const void* host, size_t bytes, Stream& on) = 0;
  // The same on stream(); done when it returns.
  void copy_to_host(void* host, const void* device, size_t bytes);
  void copy_from_host(void* device, const void* host, size_t bytes);
  // Copies within this device, or from another one of its kind; issued on stream().
  virtual void copy_within(void* to, const void* from, size_t bytes) = 0;
  // Every byte of a block on this device becomes `value`; issued on stream().
  virtual void fill(void* block, unsigned char value, size_t bytes) = 0;
  // How many updates of persistent tensors were not made because what they are made from was not
  // finite; of all parts of the device together. Only grows; counts what has run by now.
  virtual int64_t refused_updates() const = 0;
  // The same number as it is when stream() has got here: int64 on this device.
  virtual void issue_refused_updates(void* to) = 0;

 protected:
  explicit Context(Device device) : device_(device) {}

 private:
  Device device_;
};

class CpuContext final : public Context {
 public:
  explicit CpuContext(int threads);
  // A part of the CPU (configure_devices): the threads and the settings of the whole, memory of its
  // own. Both must outlive it.
  CpuContext(Device part, CpuContext& whole, RawMemory& memory);
  ThreadPool& pool() { return whole_ != nullptr ? whole_->pool() : *pool_; }
  // Replaces the pool; 0 takes every core. Not while a kernel runs. Results do not depend on it;
  // a step that is prepared already can run with fewer threads, not with more.
  void set_threads(int threads);
  int threads() const override { return whole_ != nullptr ? whole_->threads() : pool_->size(); }
  // These take effect on ops called and steps prepared from now on; those prepared already keep
  // theirs. Results differ in the last bits. Throws DeviceError for native where there are none.
  void set_kernels(CpuKernels kernels);
  void set_winograd(Winograd winograd);
  const CpuSettings& settings() const { return whole_ != nullptr ? whole_->settings_ : settings_; }
  CpuKernels kernels() const { return settings().kernels; }
  // What the setting comes to here: "native" or "eigen".
  const char* kernels_name() const;
  RawMemory& memory() override;
  Stream& stream() override { return *stream_; }
  std::unique_ptr<Stream> make_stream() override { return make_cpu_stream(); }
  void issue_to_host(void* host, const void* device, size_t bytes, Stream& on) override;
  void issue_from_host(void* device, const void* host, size_t bytes, Stream& on) override;
  void copy_within(void* to, const void* from, size_t bytes) override;
  void fill(void* block, unsigned char value, size_t bytes) override;
  void issue_refused_updates(void* to) override;
  int64_t refused_updates() const override {
    return whole_ != nullptr ? whole_->refused_updates() : refused_.load();
  }
  void count_refused_update() { ++(whole_ != nullptr ? whole_->refused_ : refused_); }

 private:
  std::atomic<int64_t> refused_{0};
  CpuContext* whole_ = nullptr;  // of a part
  RawMemory* memory_ = nullptr;  // of a part
  std::unique_ptr<ThreadPool> pool_;
  CpuSettings settings_;
  std::unique_ptr<Stream> stream_;
};

class CudaContext;  // runtime/cuda/context.h

// The context of a device; throws DeviceError when there is no such device.
Context& context(Device device);
// Copies between any two devices. Where one of them is the host, or they differ, the bytes are
// there when it returns; within a GPU the copy is issued on its stream.
void copy_bytes(Device to_device, void* to, Device from_device, const void* from, size_t bytes);
CpuContext& cpu_context();

}  // namespace tessera
