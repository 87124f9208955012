#include "tessera/engine/eager.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"

namespace tessera {
namespace {

// An allocator and the memory that enforces its limit, if it has one.
struct Made {
  std::unique_ptr<RawMemory> memory;
  std::unique_ptr<Allocator> allocator;
};

struct OfMemory {
  std::vector<Made> made;  // all allocators: a replaced one still owns its tensors
  Allocator* current = nullptr;
};

std::mutex mutex;

// The memory of a device changes when configure_devices() splits the device.
OfMemory& allocators_of(const RawMemory& memory) {
  static auto* all = new std::map<const RawMemory*, OfMemory>;  // never destroyed
  return (*all)[&memory];
}

Allocator* keep(OfMemory& of, Made made) {
  of.made.push_back(std::move(made));
  Allocator* allocator = of.made.back().allocator.get();
  give_back_with([allocator] { allocator->trim(); });
  return allocator;
}

Made make(Device device, std::string_view name, const AllocatorSettings& settings) {
  RawMemory& machine = context(device).memory();
  Made made;
  if (settings.limit != RawMemory::kNoLimit)
    made.memory = std::make_unique<LimitedMemory>(machine, settings.limit, kEagerTag);
  made.allocator = make_allocator(name, made.memory ? *made.memory : machine, settings);
  if (!made.allocator)
    throw ConfigError(
        fmt::format("eager allocator: '{}' is not one of {}", name, allocator_names()));
  return made;
}

// Makes an allocator current and returns the previous one.
Allocator* use(Device device, Made made) {
  const RawMemory& memory = context(device).memory();
  const std::lock_guard lock(mutex);
  OfMemory& of = allocators_of(memory);
  return std::exchange(of.current, keep(of, std::move(made)));
}

}  // namespace

Allocator& eager_allocator(Device device) {
  const RawMemory& memory = context(device).memory();
  {
    const std::lock_guard lock(mutex);
    if (Allocator* current = allocators_of(memory).current) return *current;
  }
  Made made = make(device, "caching", {});
  const std::lock_guard lock(mutex);
  OfMemory& of = allocators_of(memory);
  if (of.current == nullptr) of.current = keep(of, std::move(made));
  return *of.current;
}

void set_eager_allocator(Device device, std::string_view name, const AllocatorSettings& settings) {
  eager_allocator(device).trim();  // frees bytes that the reserve may need
  use(device, make(device, name, settings));
}

void set_eager_allocator(Device device, std::unique_ptr<Allocator> allocator) {
  if (!allocator) throw ConfigError("eager allocator: the allocator must not be null");
  eager_allocator(device).trim();
  use(device, {nullptr, std::move(allocator)});
}

EagerAllocatorScope::EagerAllocatorScope(Device device, std::string_view name,
                                         const AllocatorSettings& settings)
    : device_(device) {
  eager_allocator(device).trim();
  outer_ = use(device, make(device, name, settings));
}

EagerAllocatorScope::~EagerAllocatorScope() {
  eager_allocator(device_).trim();
  const RawMemory& memory = context(device_).memory();
  const std::lock_guard lock(mutex);
  allocators_of(memory).current = outer_;
}

}  // namespace tessera
