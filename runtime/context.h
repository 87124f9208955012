// Context: a device as kernels see it: memory, streams and properties. A kernel is an overload on
// CpuContext& or CudaContext&. Contexts are made once per device and exist as long as the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "tessera/runtime/device.h"
#include "tessera/runtime/raw_memory.h"
#include "tessera/runtime/stream.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// The alignment in bytes of tensor blocks on a device. On GPUs it is that of the driver's
// allocations, which the vendor's libraries assume.
constexpr size_t alignment_of(Device device) { return device.is_cpu() ? kMemoryAlignment : 256; }

struct DeviceProperties;  // runtime/cuda/device_properties.h

// The CPU kernels of matrix products and convolutions: written for AVX2 and AVX-512, or Eigen,
// which runs everywhere. automatic: native if they run on this processor, else eigen.
enum class CpuKernels { automatic, native, eigen };

// Whether native convolutions of float32 with 3x3 filters use Winograd's algorithm for shapes where
// it is faster. It rounds a little more than direct sums.
enum class Winograd { automatic, off };

struct CpuSettings {
  CpuKernels kernels = CpuKernels::automatic;
  Winograd winograd = Winograd::automatic;
  bool operator==(const CpuSettings&) const = default;
};

// The cuDNN plan to use among the allowed ones: the fastest by cuDNN's heuristic, or the fastest
// measured by `trainer tune` on this computer.
enum class GpuPlans { heuristic, autotuned };

struct GpuSettings {
  // The factors of float32 products and convolutions are rounded to ten bits of mantissa, on GPUs
  // that have tensor cores for it; exact products take many times as long there.
  bool tf32 = true;
  bool deterministic = true;           // only algorithms with the same bits each time
  size_t workspace = size_t{1} << 30;  // maximum scratch bytes of one op
  bool synchronous = false;  // wait after each op (CUDA_LAUNCH_BLOCKING=1): errors name it
  GpuPlans plans = GpuPlans::heuristic;
  bool operator==(const GpuSettings&) const = default;
};

// How ops compute. Results do not depend on the number of threads; kernels, Winograd and TF32
// change the last bits.
struct Settings {
  int threads = 0;  // CPU threads, including the caller; 0: one for each core of the process
  CpuSettings cpu = {};
  GpuSettings gpu = {};
  bool operator==(const Settings&) const = default;
};

// Sets the settings of ops that the calling thread calls or prepares during the scope. A prepared
// step keeps its settings, whichever scope it runs in. Scopes nest. Throws DeviceError if
// cpu.kernels is native and this processor has no native kernels, or if the system cannot start
// more threads.
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

// The facts by which an op chooses its algorithm: of an existing device, or of one that is only
// described.
struct Target {
  Device device;
  int threads = 1;  // host threads that one kernel may use
  CpuSettings cpu = {};
  const DeviceProperties* properties = nullptr;  // nullptr for the CPU and if unknown
  GpuSettings gpu = {};
  bool operator==(const Target&) const = default;
};

class Context {
 public:
  virtual ~Context() = default;
  Device device() const { return device_; }
  Target target() const;
  // The physical memory for tensors on this device.
  virtual RawMemory& memory() = 0;
  // The stream on which kernels issue their work.
  virtual Stream& stream() = 0;
  // Returns a new stream, for work that may overlap with other streams.
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // The stream on which arguments of later steps are copied; stream() on a CPU.
  virtual Stream& copy_stream() { return stream(); }
  // Host memory for overlapped copies from and to this device: pinned (page-locked) on a GPU,
  // memory() on the CPU.
  virtual RawMemory& staging_memory() { return memory(); }
  // The number of host threads that one kernel may use at once.
  virtual int threads() const { return 1; }
  // Returns the properties of the GPU; nullptr for the CPU and for a GPU whose properties are
  // unknown.
  virtual const DeviceProperties* properties() const { return nullptr; }
  // Returns true for a device that is only described: steps are planned for it, and nothing runs.
  virtual bool plans_only() const { return false; }
  // Waits until all work issued on stream() so far is done.
  void synchronize() { stream().synchronize(); }
  // Copy between this device and the host, issued on one of the device's streams. The host's bytes
  // are valid, or may be overwritten, when the stream has reached the end of the copy.
  virtual void issue_to_host(void* host, const void* device, size_t bytes, Stream& on) = 0;
  virtual void issue_from_host(void* device, const void* host, size_t bytes, Stream& on) = 0;
  // Copy on stream() and wait until the copy is done.
  void copy_to_host(void* host, const void* device, size_t bytes) {
    if (bytes == 0) return;
    issue_to_host(host, device, bytes, stream());
    synchronize();
  }
  void copy_from_host(void* device, const void* host, size_t bytes) {
    if (bytes == 0) return;
    issue_from_host(device, host, bytes, stream());
    synchronize();
  }
  // Copies within this device or from another device of its kind; issued on stream().
  virtual void copy_within(void* to, const void* from, size_t bytes) = 0;
  // Sets every byte of a block on this device to `value`; issued on stream().
  virtual void fill(void* block, unsigned char value, size_t bytes) = 0;
  // Returns the number of updates of persistent tensors that were skipped because their inputs were
  // not finite, over all parts of the device. Counts what has run by now; never decreases.
  virtual int64_t skipped_updates() const = 0;
  // Writes skipped_updates() at this point of stream() to an int64 on this device.
  virtual void issue_skipped_updates(void* to) = 0;

 protected:
  explicit Context(Device device) : device_(device) {}

 private:
  Device device_;
};

class CpuContext final : public Context {
 public:
  CpuContext();
  // Makes a context for a part of the CPU (configure_devices) with memory of its own. `whole` and
  // `memory` must outlive the context.
  CpuContext(Device part, CpuContext& whole, RawMemory& memory);
  // Returns the threads of settings(). Pools of equal size are shared and exist as long as the
  // process.
  ThreadPool& pool();
  int threads() const override { return settings().threads; }
  // Returns the resolved settings().cpu.kernels on this processor: "native" or "eigen".
  const char* kernels_name() const;
  RawMemory& memory() override { return memory_ != nullptr ? *memory_ : cpu_memory(); }
  Stream& stream() override { return *stream_; }
  std::unique_ptr<Stream> make_stream() override { return make_cpu_stream(); }
  void issue_to_host(void* host, const void* device, size_t bytes, Stream&) override {
    copy_within(host, device, bytes);
  }
  void issue_from_host(void* device, const void* host, size_t bytes, Stream&) override {
    copy_within(device, host, bytes);
  }
  void copy_within(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void fill(void* block, unsigned char value, size_t bytes) override {
    if (bytes > 0) std::memset(block, value, bytes);
  }
  void issue_skipped_updates(void* to) override {
    const int64_t now = skipped_updates();
    std::memcpy(to, &now, sizeof now);
  }
  int64_t skipped_updates() const override {
    return whole_ != nullptr ? whole_->skipped_updates() : skipped_.load();
  }
  void count_skipped_update() { ++(whole_ != nullptr ? whole_->skipped_ : skipped_); }

 private:
  std::atomic<int64_t> skipped_{0};
  CpuContext* whole_ = nullptr;  // set for a part
  RawMemory* memory_ = nullptr;  // set for a part
  std::unique_ptr<Stream> stream_;
};

class CudaContext;  // runtime/cuda/context.h

// Returns the context of a device. Throws DeviceError if there is no such device.
Context& context(Device device);
// Copies between any two devices. Returns when the copy is done; a copy within a GPU is only issued
// on its stream.
void copy_bytes(Device to_device, void* to, Device from_device, const void* from, size_t bytes);
CpuContext& cpu_context();

}  // namespace tessera
