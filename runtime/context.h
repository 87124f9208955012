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

struct DeviceProperties;  // runtime/cuda/device_properties.h

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

// How GPUs compute.
struct GpuSettings {
  bool tf32 = false;          // products and convolutions of float32 with ten bits of mantissa
  bool deterministic = true;  // only algorithms that give the same bits each time
  size_t workspace = size_t{256} << 20;  // bytes that one op may take for scratch at most
  bool synchronous = false;  // wait after each op, so that errors of kernels name theirs; slow
  GpuPlans plans = GpuPlans::rule;
  bool operator==(const GpuSettings&) const = default;
};

// Settings: how ops compute. Results do not depend on the number of threads; kernels, Winograd and
// TF32 change the last bits.
struct Settings {
  int threads = 0;  // of the CPU, the calling one included; 0: one for each core of the process
  CpuSettings cpu = {};
  GpuSettings gpu = {};
  bool operator==(const Settings&) const = default;
};

// Sets how ops compute that the calling thread calls or prepares while the scope lives. A prepared
// step keeps its settings, whichever scope it runs in. Scopes nest. Throws DeviceError if
// cpu.kernels is native and this processor has no native kernels, or if the system has no threads
// left.
class SettingsScope {
 public:
  explicit SettingsScope(const Settings& settings);
  ~SettingsScope();
  SettingsScope(const SettingsScope&) = delete;
  SettingsScope& operator=(const SettingsScope&) = delete;

 private:
  friend class CpuContext;
  friend const Settings& settings();
  Settings settings_;  // threads >= 1
  ThreadPool* pool_;
  const SettingsScope* outer_;
};
// Returns the settings of the calling thread's innermost scope, else the defaults; threads >= 1.
const Settings& settings();

// What an op chooses its algorithm by: facts of a device that is there, or only described.
struct Target {
  Device device;
  int threads = 1;  // of the host, that one kernel may use at once
  CpuSettings cpu = {};
  const DeviceProperties* properties = nullptr;  // of a GPU; nullptr where nobody knows them
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
  virtual const DeviceProperties* properties() const { return nullptr; }
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
  CpuContext();
  // A part of the CPU (configure_devices), with memory of its own. Both must outlive it.
  CpuContext(Device part, CpuContext& whole, RawMemory& memory);
  // The threads of settings(). Pools of equal size are one and live as long as the process.
  ThreadPool& pool();
  int threads() const override { return settings().threads; }
  // Returns what settings().cpu.kernels comes to on this processor: "native" or "eigen".
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
