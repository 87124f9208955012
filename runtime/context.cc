#include "tessera/runtime/context.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

namespace {

thread_local const SettingsScope* current = nullptr;

// Never destroyed: other threads may still run, and a forked process has no workers to join.
ThreadPool& pool_of(int threads) {
  static std::mutex mutex;
  static auto* const pools = new std::map<int, std::unique_ptr<ThreadPool>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<ThreadPool>& pool = (*pools)[threads];
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

// The default pool: falls back to one thread if the system cannot start more.
ThreadPool& default_pool() {
  static ThreadPool& pool = [&]() -> ThreadPool& {
    try {
      return pool_of(available_cores());
    } catch (const DeviceError&) {
      return pool_of(1);
    }
  }();
  return pool;
}

class CpuEvent final : public Event {
 public:
  bool done() const override { return true; }
  void synchronize() const override {}
};

class CpuStream final : public Stream {
 public:
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  void record(Event&) override {}
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}
  std::unique_ptr<CapturedWork> capture(const std::function<void()>&) override { return nullptr; }
};

// Made at first use and never destroyed, as tensors may outlive main.
CpuContext& cpu_part(const LogicalDevice& part) {
  static std::mutex mutex;
  static auto* contexts = new std::map<int, std::unique_ptr<CpuContext>>;
  RawMemory& memory = part_memory(part, cpu_memory());
  const std::lock_guard lock(mutex);
  std::unique_ptr<CpuContext>& context = (*contexts)[part.device.index];
  if (!context) context = std::make_unique<CpuContext>(part.device, cpu_context(), memory);
  return *context;
}

}  // namespace

SettingsScope::SettingsScope(const Settings& settings) : settings_(settings), outer_(current) {
  if (settings.cpu.kernels == CpuKernels::native && !has_native_kernels())
    throw DeviceError(
        fmt::format("native CPU kernels need AVX2 or AVX-512, but the instruction set in "
                    "use is {}; choose auto or eigen{}",
                    isa_name(current_isa()),
                    std::getenv("TESSERA_MAX_ISA") ? ", or unset TESSERA_MAX_ISA" : ""));
  if (settings.threads <= 0) settings_.threads = available_cores();
  // A nested scope with equal settings, the usual case, must not take a lock for its pool.
  const bool same = outer_ != nullptr && outer_->settings_.threads == settings_.threads;
  pool_ = same ? outer_->pool_ : &pool_of(settings_.threads);
  current = this;
}

SettingsScope::~SettingsScope() { current = outer_; }

const Settings& settings() {
  if (current != nullptr) return current->settings_;
  static const Settings defaults{.threads = default_pool().size()};
  return defaults;
}

Target Context::target() const {
  return {.device = device_,
          .threads = threads(),
          .cpu = settings().cpu,
          .properties = properties(),
          .gpu = settings().gpu};
}

std::unique_ptr<Stream> make_cpu_stream() { return std::make_unique<CpuStream>(); }

CpuContext::CpuContext() : Context(Device{}), stream_(make_cpu_stream()) {}

CpuContext::CpuContext(Device part, CpuContext& whole, RawMemory& memory)
    : Context(part), whole_(&whole), memory_(&memory), stream_(make_cpu_stream()) {}

ThreadPool& CpuContext::pool() { return current != nullptr ? *current->pool_ : default_pool(); }

const char* CpuContext::kernels_name() const {
  return settings().cpu.kernels == CpuKernels::eigen || !has_native_kernels() ? "eigen" : "native";
}

CpuContext& cpu_context() {
  static CpuContext instance;
  return instance;
}

Context& context(Device device) {
  if (is_described(device)) return planning_context(device);
  require_device(device);
  const std::optional<LogicalDevice> part = logical_device(device);
  if (device.is_cpu()) return part ? cpu_part(*part) : cpu_context();
  if constexpr (kCuda) {
    const int index = part ? part->physical.index : device.index;
    Context& whole = cuda_context(index);
    if (part) return cuda_context(index, device.index, &part_memory(*part, whole.memory()));
    note_whole_memory(whole.memory());
    return whole;
  }
  throw InternalError("a GPU passed require_device in a build without CUDA");
}

void copy_bytes(Device to_device, void* to, Device from_device, const void* from, size_t bytes) {
  Context& where = context(to_device);
  if (from_device.is_cpu()) {
    where.copy_from_host(to, from, bytes);
  } else if (to_device.is_cpu()) {
    context(from_device).copy_to_host(to, from, bytes);
  } else if (from_device == to_device) {
    where.copy_within(to, from, bytes);
  } else {
    context(from_device).synchronize();
    where.copy_within(to, from, bytes);
    where.synchronize();
  }
}

}  // namespace tessera
