#include "tessera/models/training/memory_limit.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/data/augment/mix.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {

namespace {

std::string size_line(const std::string& name, int64_t bytes) {
  return fmt::format("  {:<34} {:>12}\n", name, byte_text(bytes));
}

std::string by_class(const MemoryNeed& need, bool on_gpu) {
  std::string text;
  if (on_gpu || need.gpu_blocks.empty())  // the step runs on the device of `need`
    for (const auto& [name, bytes] : need.report.classes) text += size_line(name, bytes);
  for (const MemoryItem& block : on_gpu ? need.gpu_blocks : need.blocks) {
    auto bytes = static_cast<int64_t>(block.bytes);
    std::string name = block.name;
    if (name == "arena" || name == "slots") continue;
    if (name == "persistent") {  // those of the step are among the classes
      bytes -= need.report.persistent;
      name = "optimizer, not used by this step";
      if (bytes == 0) continue;
    }
    text += size_line(name, bytes);
  }
  return text;
}

// A probe compiles four programs: 16 ms in all for ResNet-20, 150 ms for DenseNet-121; several
// times as long with a budget. Interpolation between the last two mostly finds the batch in five
// probes.
constexpr int64_t kMaxProbes = 12;

// The memory that a run may use at most, and the source of that bound.
struct Bound {
  int64_t bytes;
  std::string name, words;  // "memory.limit", "the limit is 2.00 GiB"
  bool on_gpu = false;
};

// Returns the memory of this computer: all that is free, plus what this process already uses; all
// memory if a limit is set, since its owner decides. Nullopt if the free memory is unknown.
std::optional<Bound> machine_bound(bool is_limited) {
  const HostMemory memory = host_memory();
  if (memory.free <= 0) return {};
  const int64_t bytes = is_limited ? memory.total : memory.free + memory.process;
  return Bound{
      bytes, "memory",
      fmt::format("this computer has {} {}", byte_text(bytes), is_limited ? "in total" : "free")};
}

std::optional<Bound> limit_bound(const Config& config) {
  const std::optional<HostLimit> limit = host_limit(config);
  if (!limit) return {};
  return Bound{limit->bytes, limit->key, "the limit is " + byte_text(limit->bytes)};
}

// Returns memory.gpu_limit or the free memory of the run's GPU; nullopt on the CPU.
std::optional<Bound> gpu_bound(const Run& run) {
  const Device device = run.device();
  if (device.is_cpu()) return {};
  if (const auto& given = run.config().memory.gpu_limit)
    return Bound{given->bytes, "memory.gpu_limit", "the limit is " + byte_text(given->bytes), true};
  const std::optional<int64_t> bytes = available_gpu_memory(device);
  if (!bytes) return {};
  return Bound{*bytes, device.name(), fmt::format("the GPU has {} free", byte_text(*bytes)), true};
}

void refuse_excess(const Run& run, const MemoryNeed& need, const std::optional<Bound>& bound) {
  if (!bound) return;
  const int64_t needed = bound->on_gpu ? need.gpu_bytes() : need.bytes();
  if (needed <= bound->bytes) return;
  throw PlanInfeasible(fmt::format(
      "{}: this {} needs {}{} ({} bytes), {}, over by {}\n"
      "by class, in the arena at its peak:\n{}"
      "the largest tensors at the peak:\n{}"
      "what would fit:\n{}",
      bound->name, purpose_name(run.purpose()), need.complete ? "" : "at least ", byte_text(needed),
      needed, bound->words, byte_text(needed - bound->bytes), by_class(need, bound->on_gpu),
      need.report.peak_tensors_text(), remedies_text(run, bound->bytes, bound->on_gpu)));
}

// Returns the memory that was exhausted: "gpu:0" for "arena region: gpu:0: out of memory: ...".
std::string_view memory_of(std::string_view text) {
  text = text.substr(0, text.find(": out of memory"));
  const size_t before = text.rfind(": ");
  return before == text.npos ? text : text.substr(before + 2);
}

}  // namespace

std::optional<HostLimit> host_limit(const Config& config) {
  std::optional<HostLimit> least;
  if (config.memory.limit) least = {config.memory.limit->bytes, "memory.limit"};
  if (config.devices.cpu.empty() || described_gpu(config.device) != nullptr) return least;
  const Device device = config.device == "auto" ? Device{} : parse_device(config.device);
  const auto index = static_cast<size_t>(device.index);
  if (!device.is_cpu() || index >= config.devices.cpu.size()) return least;
  const int64_t part = config.devices.cpu[index].bytes;
  if (!least || part < least->bytes) least = {part, "devices.cpu, of " + device.name()};
  return least;
}

void require_fit(const Run& run) {
  run.session();
  if (run.config().mode == Mode::kEager) return;
  const MemoryNeed need = memory_need(run);
  refuse_excess(run, need, limit_bound(run.config()));
  refuse_excess(run, need, machine_bound(host_limit(run.config()).has_value()));
  refuse_excess(run, need, gpu_bound(run));
}

// Uses only what is known of unopened data, because data are opened only once.
void require_fit_ahead(const Run& given) {
  const Run run = given.with([](Config&) {});
  const Config& config = run.config();
  const bool limited = host_limit(config) || config.memory.gpu_limit;
  // Data that will be kept in memory are checked before they are opened. File-based data need
  // little memory.
  const bool in_files = config.data.name == "image_folder" || config.data.name == "hdf5";
  if (!limited && (in_files || !run.device().is_cpu())) return;
  run.session();
  if (config.mode == Mode::kEager) return;
  const MemoryNeed need = memory_need(run);
  refuse_excess(run, need, limited ? limit_bound(config) : machine_bound(false));
  if (config.memory.gpu_limit) refuse_excess(run, need, gpu_bound(run));
}

void limit_eager_memory(const Run& run, Session& session) {
  const Config& config = run.config();
  const MemoryConfig& memory = config.memory;
  const bool on_gpu = !session.device().is_cpu();
  std::optional<Bound> bound = on_gpu ? gpu_bound(run) : limit_bound(config);
  if (!bound && !on_gpu) bound = machine_bound(false);
  if (!bound) {
    if (memory.reserve || memory.allocator != "caching") session.use_eager_memory({});
    return;
  }
  std::vector<MemoryItem> blocks = on_gpu ? session.gpu_regions() : session.regions();
  if (!on_gpu)
    for (MemoryItem& block : other_blocks(run, session.store().persistent()))
      blocks.push_back(std::move(block));
  if (!on_gpu && make_mix(config.data).any())
    blocks.push_back(
        {"targets", static_cast<size_t>(config.data.batch * config.model.classes) * sizeof(float)});
  const int64_t needed = total_bytes(blocks), limit = bound->bytes, left = limit - needed;
  const int64_t reserve = memory.reserve ? memory.reserve->bytes : 0;
  if (left > 0 && reserve <= left) return session.use_eager_memory(left);
  std::string text;
  for (const MemoryItem& block : blocks)
    if (block.bytes > 0) text += size_line(block.name, static_cast<int64_t>(block.bytes));
  throw PlanInfeasible(fmt::format(
      "{}: this {} needs {} ({} bytes) before its first eager step{}, {}, over by {}\n"
      "by class:\n{}what would fit:\n{}",
      bound->name, purpose_name(run.purpose()), byte_text(needed + reserve), needed + reserve,
      reserve > 0 ? fmt::format(", including {} of memory.reserve", byte_text(reserve)) : "",
      bound->words, byte_text(needed + reserve - limit), text, remedies_text(run, limit, on_gpu)));
}

void with_memory_advice(const Run& run, const std::function<void()>& action) {
  try {
    action();
  } catch (const PlanInfeasible&) {  // has its own advice
    throw;
  } catch (OutOfMemory& error) {
    const Device device = run.device();
    const bool of_gpu = !device.is_cpu() && memory_of(error.what()) == device.name();
    std::optional<Bound> bound = of_gpu ? gpu_bound(run) : limit_bound(run.config());
    if (!bound && !of_gpu) bound = machine_bound(false);
    if (bound)
      error.append(fmt::format("\nwhat would fit, as {}:\n{}", bound->words,
                               remedies_text(run, bound->bytes, bound->on_gpu)));
    throw;
  }
}

std::string libraries_text() {
  return fmt::format("memory: programs and libraries use {} in addition",
                     byte_text(host_memory().libraries, 1));
}

std::string swap_text(int64_t swapped) {
  if (swapped <= 0) return "";
  return fmt::format(
      "memory: {} of this process are swapped out, so that steps wait for the disk; end other "
      "programs, or set memory.budget or a smaller data.batch",
      byte_text(swapped));
}

std::string headroom_text(const Run& run, int64_t used) {
  const Config& config = run.config();
  const std::optional<HostLimit> limited = host_limit(config);
  const int64_t there = limited ? limited->bytes : available_memory(used);
  const std::string whose = limited ? "of " + limited->key : "free on this computer";
  if (config.mode == Mode::kEager)
    return fmt::format(
        "{} of {} {}; eager steps allocate more as they run, an amount unknown in advance{}",
        byte_text(used), byte_text(there), whose, limited ? "; the limit still holds" : "");
  const int64_t batch = config.data.batch, images = run.data_need().train_count;
  const auto [most, exact] =
      BatchSearch(run).largest(run, there, config.memory.budget ? kMaxProbes / 2 : kMaxProbes);
  const char* within = config.memory.budget ? " within memory.budget" : "";
  std::string growth;
  if (images > 0 && batch >= images) {
    growth = "; data.batch already has all images";
  } else if (most > batch && most == images) {
    growth = fmt::format("; data.batch could grow to all {} images{}", most, within);
  } else if (most > batch) {
    growth =
        fmt::format("; data.batch could grow to {}{}{}", exact ? "" : "at least ", most, within);
  } else if (exact && most == batch) {
    growth = fmt::format("; one more image in data.batch would not fit{}", within);
  }
  return fmt::format("{} of {} {}{}", byte_text(used), byte_text(there), whose, growth);
}

}  // namespace tessera
