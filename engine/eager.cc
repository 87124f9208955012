#include "tessera/engine/eager.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// An allocator with the memory that holds it to its limit, if it has one.
struct Made {
  std::unique_ptr<RawMemory> memory;
  std::unique_ptr<Allocator> allocator;
};

struct OfDevice {
  std::vector<Made> made;  // all of them: one that counts no more still owns its tensors
  Allocator* current = nullptr;
};

std::mutex mutex;

OfDevice& allocators_of(Device device) {
  static auto* all = new std::map<int, OfDevice>;  // outlives tensors
  return (*all)[device.is_cpu() ? -1 : device.index];
}

Made make(Device device, std::string_view name, const AllocatorSettings& settings) {
  RawMemory& machine = context(device).memory();
  Made made;
  if (settings.limit != RawMemory::kNoLimit)
    made.memory = std::make_unique<LimitedMemory>(machine, settings.limit, kEagerHolder);
  made.allocator = make_allocator(name, made.memory ? *made.memory : machine, settings);
  if (!made.allocator)
    throw ConfigError(
        fmt::format("eager allocator: there is no '{}'; there are {}", name, allocator_names()));
  return made;
}

// Returns the one that was current.
Allocator* use(Device device, Made made) {
  const std::lock_guard lock(mutex);
  OfDevice& of = allocators_of(device);
  of.made.push_back(std::move(made));
  return std::exchange(of.current, of.made.back().allocator.get());
}

}  // namespace

Allocator& eager_allocator(Device device) {
  {
    const std::lock_guard lock(mutex);
    if (Allocator* current = allocators_of(device).current) return *current;
  }
  Made made = make(device, "caching", {});
  const std::lock_guard lock(mutex);
  OfDevice& of = allocators_of(device);
  if (of.current == nullptr) {
    of.made.push_back(std::move(made));
    of.current = of.made.back().allocator.get();
  }
  return *of.current;
}

void set_eager_allocator(Device device, std::string_view name, const AllocatorSettings& settings) {
  eager_allocator(device).trim();  // before a reserve is taken, which may need the bytes
  use(device, make(device, name, settings));
}

void set_eager_allocator(Device device, std::unique_ptr<Allocator> allocator) {
  if (!allocator) throw ConfigError("eager allocator: none is given");
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
  const std::lock_guard lock(mutex);
  allocators_of(device_).current = outer_;
}

}  // namespace tessera
