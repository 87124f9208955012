#include "tessera/runtime/logical_devices.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/context.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/raw_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// The physical memory of a device under the limit of a part, which configure_devices() may change.
class PartMemory final : public LimitedMemory {
 public:
  PartMemory(Device device, RawMemory& whole)
      : LimitedMemory(whole, kNoLimit, "others"), device_(device) {}
  std::string name() const override { return device_.name(); }
  using LimitedMemory::set_limit;

 private:
  const Device device_;
};

// Never destroyed: tensors may outlive main.
struct Table {
  std::mutex mutex;
  std::vector<LogicalDevice> parts;  // empty: devices are whole
  std::map<std::tuple<DeviceKind, int, const RawMemory*>, std::unique_ptr<PartMemory>> memories;
  std::vector<const RawMemory*> wholes{&cpu_memory()};
  std::vector<std::function<void()>> trims;
};
Table& table() {
  static auto* all = new Table;
  return *all;
}
std::atomic<bool> is_cut{false};

std::vector<LogicalDevice> cut(const std::vector<DeviceParts>& wanted) {
  const std::vector<DeviceInfo> whole = physical_devices();
  std::vector<LogicalDevice> parts;
  int next[2] = {0, 0};
  const auto add = [&](Device physical, int part, int count, size_t limit) {
    int& index = next[static_cast<int>(physical.kind)];
    parts.push_back({{physical.kind, index++}, physical, limit, part, count});
  };
  std::vector<Device> named;
  std::vector<std::vector<size_t>> limits;  // bytes of each part, for each named device
  for (const DeviceParts& entry : wanted) {
    const Device device = parse_device(entry.device);
    if (std::ranges::find(whole, device, &DeviceInfo::device) == whole.end())
      throw DeviceError(fmt::format(
          "configure_devices: {} does not exist; run trainer devices to list the devices{}{}",
          device.name(), device.is_cpu() ? "" : "; ", device.is_cpu() ? "" : why_no_gpu()));
    if (std::ranges::find(named, device) != named.end())
      throw DeviceError(
          fmt::format("configure_devices: {} is named twice; give all its parts in "
                      "one entry",
                      device.name()));
    const bool equal = entry.limits.empty();
    const int64_t count = equal ? entry.parts : std::ssize(entry.limits);
    const size_t least = equal ? entry.bytes_each : *std::ranges::min_element(entry.limits);
    if (count < 1 || least == 0)
      throw DeviceError(
          fmt::format("configure_devices: {} must have at least one part and one byte per part, "
                      "but has {} parts of {} bytes",
                      device.name(), count, least));
    named.push_back(device);
    limits.push_back(equal ? std::vector(static_cast<size_t>(count), least) : entry.limits);
  }
  for (const DeviceInfo& info : whole)
    if (std::ranges::find(named, info.device) == named.end())
      add(info.device, 0, 1, RawMemory::kNoLimit);
  for (size_t i = 0; i < named.size(); ++i)
    for (size_t part = 0; part < limits[i].size(); ++part)
      add(named[i], static_cast<int>(part), static_cast<int>(limits[i].size()), limits[i][part]);
  return parts;
}

void refuse_live(const RawMemory& memory) {
  const size_t bytes = memory.statistics().live_bytes;
  if (bytes == 0) return;
  throw DeviceError(
      fmt::format("configure_devices: no memory may be in use, but tensors, steps or loaders use "
                  "{} of {}; call it before creating the first of them, or after freeing the last",
                  byte_text(static_cast<int64_t>(bytes)), memory.name()));
}

// A device as planning needs it.
class PlanningContext final : public Context {
  class NoMemory final : public RawMemory {
   public:
    explicit NoMemory(Device device) : device_(device) {}
    std::string name() const override {
      return device_.name() + ", which is only described for planning";
    }

   protected:
    void* do_allocate(size_t) override { return nullptr; }
    void do_deallocate(void*, size_t) noexcept override {}

   private:
    const Device device_;
  };

 public:
  explicit PlanningContext(Device device)
      : Context(device), memory_(device), stream_(make_cpu_stream()) {}
  void set_properties(const DeviceProperties* properties) { properties_ = properties; }
  const DeviceProperties* properties() const override { return properties_; }
  RawMemory& memory() override { return memory_; }
  Stream& stream() override { return *stream_; }
  std::unique_ptr<Stream> make_stream() override { return make_cpu_stream(); }
  bool plans_only() const override { return true; }
  void issue_to_host(void*, const void*, size_t, Stream&) override { refuse(); }
  void issue_from_host(void*, const void*, size_t, Stream&) override { refuse(); }
  void copy_within(void*, const void*, size_t) override { refuse(); }
  void fill(void*, unsigned char, size_t) override { refuse(); }
  int64_t skipped_updates() const override { return 0; }
  void issue_skipped_updates(void*) override { refuse(); }

 private:
  void refuse() const {
    throw DeviceError(
        fmt::format("{} is only described for planning; nothing runs on it", device().name()));
  }

  NoMemory memory_;
  std::unique_ptr<Stream> stream_;
  const DeviceProperties* properties_ = nullptr;
};

std::atomic<PlanningContext*> described{nullptr};

}  // namespace

void configure_devices(const std::vector<DeviceParts>& parts) {
  if (const std::string open = open_device_scope(); !open.empty())
    throw DeviceError(fmt::format(
        "configure_devices: no DeviceScope may be open, but {} is; close it first", open));
  std::vector<LogicalDevice> fresh = parts.empty() ? std::vector<LogicalDevice>() : cut(parts);
  Table& all = table();
  std::vector<std::function<void()>> trims;
  {
    const std::lock_guard lock(all.mutex);
    trims = all.trims;
  }
  for (const std::function<void()>& trim : trims)
    trim();  // not under the lock: trim() may look up a device
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, memory] : all.memories) refuse_live(*memory);
  if (all.parts.empty())
    for (const RawMemory* memory : all.wholes) refuse_live(*memory);
  all.parts = std::move(fresh);
  is_cut = !all.parts.empty();
}

std::vector<DeviceInfo> logical_devices() {
  std::vector<DeviceInfo> devices = physical_devices();
  if (!is_cut) return devices;
  const std::lock_guard lock(table().mutex);
  std::vector<DeviceInfo> parts;
  for (const LogicalDevice& part : table().parts)
    for (const DeviceInfo& info : devices) {
      if (info.device != part.physical) continue;
      DeviceInfo one = info;
      one.device = part.device;
      if (part.parts > 1)
        one.description = fmt::format("part {} of {} of {}, {}", part.part + 1, part.parts,
                                      part.physical.name(), info.description);
      if (part.limit != RawMemory::kNoLimit)
        one.memory_bytes = std::min(info.memory_bytes, static_cast<long long>(part.limit));
      parts.push_back(std::move(one));
    }
  return parts;
}

std::optional<LogicalDevice> logical_device(Device device) {
  if (!is_cut) return {};
  const std::lock_guard lock(table().mutex);
  for (const LogicalDevice& part : table().parts)
    if (part.device == device) return part;
  return {};
}

RawMemory& part_memory(const LogicalDevice& part, RawMemory& whole) {
  const std::lock_guard lock(table().mutex);
  auto& memory = table().memories[{part.device.kind, part.device.index, &whole}];
  if (!memory) memory = std::make_unique<PartMemory>(part.device, whole);
  memory->set_limit(part.limit);
  return *memory;
}

void note_whole_memory(const RawMemory& memory) {
  const std::lock_guard lock(table().mutex);
  if (std::ranges::find(table().wholes, &memory) == table().wholes.end())
    table().wholes.push_back(&memory);
}

void give_back_with(std::function<void()> trim) {
  const std::lock_guard lock(table().mutex);
  table().trims.push_back(std::move(trim));
}

DescribedDevice::DescribedDevice(Device device, const DeviceProperties* properties) {
  // Never destroyed, as plans keep references to it.
  static std::mutex mutex;
  static auto* contexts =
      new std::map<std::pair<DeviceKind, int>, std::unique_ptr<PlanningContext>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<PlanningContext>& context = (*contexts)[{device.kind, device.index}];
  if (!context) context = std::make_unique<PlanningContext>(device);
  PlanningContext* none = nullptr;
  if (!described.compare_exchange_strong(none, context.get()))
    throw InternalError("only one device may be described at a time");
  context->set_properties(properties);
}

DescribedDevice::~DescribedDevice() { described = nullptr; }

bool is_described(Device device) {
  const PlanningContext* const context = described;
  return context != nullptr && context->device() == device;
}

Context& planning_context(Device device) {
  PlanningContext* const context = described;
  if (context == nullptr || context->device() != device)
    throw InternalError(device.name() + " is not described");
  return *context;
}

}  // namespace tessera
