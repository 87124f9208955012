#include "tessera/models/training/memory_limit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

std::string by_class(const MemoryNeed& need) {
  std::string text;
  for (const auto& [name, bytes] : need.report.classes)
    text += fmt::format("  {:<34} {:>12}\n", name, byte_text(bytes));
  for (const HostBuffer& block : need.blocks) {
    auto bytes = static_cast<int64_t>(block.bytes);
    std::string name = block.name;
    if (name == "arena" || name == "slots") continue;
    if (name == "persistent") {  // the step's are among the classes
      bytes -= need.report.persistent;
      name = "optimizer, not used by this step";
      if (bytes == 0) continue;
    }
    text += fmt::format("  {:<34} {:>12}\n", name, byte_text(bytes));
  }
  return text;
}

// A probe compiles four programs: 16 ms in all for ResNet-20, 150 ms for DenseNet-121. The line
// through the last two mostly finds the batch with five.
constexpr int64_t kMaxProbes = 12;

// The largest of those that live when the arena is fullest.
std::string at_the_peak(const PlanReport& report) {
  std::vector<const PlannedTensor*> there;
  for (const PlannedTensor& t : report.blocks)
    if (t.lower <= report.fullest && report.fullest < t.upper) there.push_back(&t);
  std::stable_sort(there.begin(), there.end(), [](const PlannedTensor* a, const PlannedTensor* b) {
    return a->bytes > b->bytes;
  });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, there.size()); ++i)
    text += fmt::format("  {:>12}  {} {}  {}\n", byte_text(there[i]->bytes), there[i]->title(),
                        there[i]->spec, there[i]->module_path);
  return text;
}

// Settings that need less and change no bit of what is learned, alone and together.
struct Saving {
  const char* words;
  void (*make)(Config&);
};

constexpr Saving kSavings[] = {
    {"", [](Config&) {}},
    {"checkpoint.keep=0", [](Config& c) { c.checkpoint.keep = 0; }},
    {"data.read_ahead=1", [](Config& c) { c.data.read_ahead = 1; }},
    {"data.workers=0", [](Config& c) { c.data.workers = 0; }},
    {"checkpoint.keep=0 data.read_ahead=1",
     [](Config& c) { c.checkpoint.keep = 0, c.data.read_ahead = 1; }},
    {"checkpoint.keep=0 data.workers=0",
     [](Config& c) { c.checkpoint.keep = 0, c.data.workers = 0; }},
};

// Each is tried as it is and, where that is still too much, with the largest batch that fits then.
// Left out is what allows no larger batch than a line before.
std::string what_fits(const Config& config, const DataNeed& data, Purpose purpose, int64_t limit) {
  BatchSearch search(data, purpose);
  const int64_t now = search.bytes(config);
  int64_t best = 0;
  std::string text;
  for (const Saving& saving : kSavings) {
    Config other = config;
    saving.make(other);
    if (*saving.words != 0 && search.bytes(other) >= now) continue;
    std::string words = saving.words;
    const bool several = words.find(' ') != words.npos;
    if (search.bytes(other) > limit) {
      other.data.batch = search.largest(other, limit).batch;
      if (other.data.batch <= best) continue;
      words = fmt::format("data.batch={} {}", other.data.batch, words);
    } else if (several && best == config.data.batch) {
      continue;
    }
    best = other.data.batch;
    text += fmt::format("  {:<46} {:>12}\n", words, byte_text(search.bytes(other)));
  }
  if (!text.empty()) return text;
  return "  nothing: not even a batch of one image, whatever is saved on checkpoints and loaders; "
         "take a smaller model or smaller images\n";
}

// What is said of a need that is too large, behind how large it is.
std::string breakdown(const Config& config, const DataNeed& data, Purpose purpose,
                      const MemoryNeed& need, int64_t allowed) {
  std::string text = fmt::format(
      "by class, in the arena at its fullest time:\n{}the largest tensors of that "
      "time:\n{}what would fit:\n{}",
      by_class(need), at_the_peak(need.report), what_fits(config, data, purpose, allowed));
  int64_t of_images = data.bytes;
  for (const HostBuffer& block : need.blocks)
    if (block.name.starts_with("loader")) of_images += static_cast<int64_t>(block.bytes);
  if (of_images > allowed) text += "  fewer images: data.train_count and data.test_count\n";
  return text;
}

// Whether there is a limit to keep to.
bool is_limited(const Config& config) {
  if (!config.memory.limit) return false;
  if (config.mode == Mode::kEager)
    throw ConfigError("memory.limit: needs mode: graph, where the need is known before the run");
  return true;
}

void refuse_excess(const Config& config, const DataNeed& data, Purpose purpose,
                   const MemoryNeed& need) {
  const int64_t limit = config.memory.limit->bytes;
  if (need.bytes() <= limit) return;
  throw PlanInfeasible(
      fmt::format("memory.limit: this {} needs {}{} ({} bytes), the limit is {}, over by {}\n{}",
                  purpose_name(purpose), need.complete ? "" : "at least ", byte_text(need.bytes()),
                  need.bytes(), byte_text(limit), byte_text(need.bytes() - limit),
                  breakdown(config, data, purpose, need, limit)));
}

// What the machine has not, is refused before the part of it that there is has been taken. `taken`:
// bytes of the need that the process holds already.
void refuse_what_is_not_there(const Config& config, const DataNeed& data, Purpose purpose,
                              Session& session, int64_t taken) {
  if (!configured_device(config).is_cpu()) return;
  std::vector<HostBuffer> blocks = session.regions();
  for (HostBuffer& block : blocks_beside(config, data, purpose, session.store().persistent()))
    blocks.push_back(std::move(block));
  const int64_t needed = total_bytes(blocks), free = host_memory().free;
  if (free == 0 || needed - taken <= free) return;
  const int64_t allowed = free + taken;
  std::string text =
      fmt::format("memory: this {} needs {} ({} bytes), but this machine has only {} free",
                  purpose_name(purpose), byte_text(needed), needed, byte_text(allowed));
  if (config.mode == Mode::kEager)
    throw PlanInfeasible(text +
                         ", before eager steps ask for more; take a smaller model or fewer "
                         "images (data.train_count, data.test_count)");
  throw PlanInfeasible(fmt::format(
      "{}\n{}", text,
      breakdown(config, data, purpose, memory_need(session, config, data, purpose), allowed)));
}

void require_fit(const Config& config, const DataNeed& data, Purpose purpose, Session& session,
                 int64_t taken) {
  if (is_limited(config))
    refuse_excess(config, data, purpose, memory_need(session, config, data, purpose));
  refuse_what_is_not_there(config, data, purpose, session, taken);
}

}  // namespace

void require_fit(const Config& config, const DataNeed& data, Purpose purpose, Session& session) {
  require_fit(config, data, purpose, session, 0);
}

void require_fit(const Config& config, const DataNeed& data, Purpose purpose) {
  is_limited(config);  // in eager mode there is no other need to look at
  require_fit(config, data, purpose, *prepared_session(config, data, purpose));
}

// Other data have to be opened to know more, which then is done once.
void require_fit(const Config& config, Purpose purpose) {
  const bool is_named = config.data.name != "hdf5" && config.data.name != "image_folder";
  if (config.memory.limit || is_named) require_fit(config, known_data(config, purpose), purpose);
}

DataSplit open_fitting(const Config& config, bool decode_all) {
  DataSource source = data_source(config);
  source.decode_all = decode_all;
  DataSplit data = open_data(source);
  const DataNeed need = data_need(data);
  require_fit(config, need, Purpose::training, *prepared_session(config, need, Purpose::training),
              need.bytes);
  return data;
}

OpenedRun open_run(const Config& config, Purpose purpose,
                   const std::function<Normalization(const Dataset&)>& otherwise) {
  DataSource source = data_source(config);
  source.test_only = purpose == Purpose::evaluation;
  OpenedRun run{open_data(source), nullptr, {}};
  const DataNeed data = data_need(run.data);
  run.normalization = normalization_of(
      config, purpose == Purpose::training ? *run.data.train : *run.data.test, otherwise);
  run.session = prepared_session(config, data, purpose, {}, &run.normalization);
  require_fit(config, data, purpose, *run.session, data.bytes);
  return run;
}

int64_t machine_room(int64_t used) {
  static const int64_t at_first = host_memory().free;
  return std::min(at_first, used + host_memory().free);
}

std::string libraries_text() {
  return fmt::format("memory: programs and libraries take {} besides",
                     byte_text(host_memory().libraries, 1));
}

std::string headroom_text(const Config& config, const DataNeed& data, int64_t used) {
  const bool limited = config.memory.limit.has_value();
  const int64_t there = limited ? config.memory.limit->bytes : machine_room(used);
  if (config.mode == Mode::kEager)
    return fmt::format(
        "{} of {} that this machine has free; eager steps ask for more as they go, of which "
        "nothing is known ahead",
        byte_text(used), byte_text(there));
  BatchSearch search(data, Purpose::training);
  const int64_t batch = config.data.batch;
  const auto [most, exact] = search.largest(config, there, kMaxProbes);
  std::string growth;
  if (data.train_count > 0 && batch >= data.train_count) {
    growth = "; data.batch is all images";
  } else if (most > batch && most == data.train_count) {
    growth = fmt::format("; data.batch could grow to all {} images", most);
  } else if (most > batch) {
    growth = fmt::format("; data.batch could grow to {}{}", exact ? "" : "at least ", most);
  } else if (exact && most == batch) {
    growth = "; one image more in data.batch would not fit";
  }
  return fmt::format("{} of {} {}{}", byte_text(used), byte_text(there),
                     limited ? "of memory.limit" : "that this machine has free", growth);
}

}  // namespace tessera
