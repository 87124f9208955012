#include "tessera/models/fit.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/graph/arena.h"
#include "tessera/graph/program.h"
#include "tessera/models/checkpoint.h"
#include "tessera/models/config_data.h"
#include "tessera/models/evaluator.h"
#include "tessera/models/session.h"
#include "tessera/runtime/byte_text.h"
#include "tessera/runtime/data/loader.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"

namespace tessera {
namespace {

constexpr int64_t kMostBatch = int64_t{1} << 20;

int64_t need_at(const Config& config, int64_t batch) {
  Config other = config;
  other.data.batch = batch;
  return memory_need(other).bytes();
}

std::string by_class(const MemoryNeed& need) {
  std::string text;
  for (const auto& [name, bytes] : need.report.classes)
    text += fmt::format("  {:<34} {:>12}\n", name, byte_text(bytes));
  for (const HostBuffer& block : need.blocks) {
    if (block.name == "persistent" || block.name == "arena" || block.name == "slots") continue;
    text +=
        fmt::format("  {:<34} {:>12}\n", block.name, byte_text(static_cast<int64_t>(block.bytes)));
  }
  return text;
}

// The largest of those that live when the arena is fullest.
std::string at_the_peak(const PlanReport& report) {
  std::vector<int64_t> live(report.step_names.size() + 2);
  for (const PlannedTensor& t : report.blocks)
    for (int64_t time = t.lower; time < t.upper; ++time) live[static_cast<size_t>(time)] += t.bytes;
  const int64_t peak = std::max_element(live.begin(), live.end()) - live.begin();
  std::vector<const PlannedTensor*> there;
  for (const PlannedTensor& t : report.blocks)
    if (t.lower <= peak && peak < t.upper) there.push_back(&t);
  std::stable_sort(there.begin(), there.end(), [](const PlannedTensor* a, const PlannedTensor* b) {
    return a->bytes > b->bytes;
  });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, there.size()); ++i)
    text += fmt::format("  {:>12}  {} {}  {}\n", byte_text(there[i]->bytes), there[i]->title(),
                        there[i]->spec, there[i]->place);
  return text;
}

// Settings that need less, those that fit: each is tried.
std::string what_fits(const Config& config, int64_t limit) {
  std::string text;
  const auto offer = [&](const char* setting, Config other) {
    const int64_t bytes = memory_need(other).bytes();
    if (bytes <= limit) text += fmt::format("  {:<34} {:>12}\n", setting, byte_text(bytes));
  };
  if (const int64_t batch = largest_batch(config, limit); batch > 0) {
    Config other = config;
    other.data.batch = batch;
    offer(fmt::format("data.batch={}", batch).c_str(), other);
  }
  Config other = config;
  other.checkpoint.keep = 0;
  offer("checkpoint.keep=0", other);
  other = config;
  other.data.read_ahead = 1;
  offer("data.read_ahead=1", other);
  return text.empty() ? "  nothing: not even a batch of one image\n" : text;
}

// That a batch may have: those of the data set, where they are known.
int64_t most_images(const Config& config) {
  const int64_t count = data_need(data_source(config)).train_count;
  return count > 0 ? std::min(count, kMostBatch) : kMostBatch;
}

}  // namespace

int64_t MemoryNeed::bytes() const {
  int64_t sum = 0;
  for (const HostBuffer& block : blocks) sum += static_cast<int64_t>(block.bytes);
  return sum;
}

MemoryNeed memory_need(const Config& given) {
  Config config = given;
  config.mode = "graph";
  const ImageShape read = image_shape(config.data);
  const ImageShape image = output_shape(make_augment(config.data), read);
  const auto channels = static_cast<size_t>(image.channels);
  const DataNeed data = data_need(data_source(config));
  const int64_t batch = config.data.batch;
  Session session(config, image, {std::vector<float>(channels), std::vector<float>(channels, 1)});
  const int64_t train = data.train_count > 0 ? data.train_count : batch;
  const int64_t test = data.test_count > 0 ? data.test_count : batch;
  PreparedStep& step = session.train_step(std::min(batch, train));
  session.train_step(last_batch(train, batch));
  session.evaluation_step(std::min(batch, test));
  session.evaluation_step(last_batch(test, batch));

  MemoryNeed need{session.regions(), plan_report(*step.program())};
  need.report.arena = static_cast<int64_t>(session.arena()->bytes());
  const auto add = [&](const char* name, int64_t bytes) {
    if (bytes > 0) need.blocks.push_back({name, static_cast<size_t>(bytes)});
  };
  add("loader of training", Loader::planned_bytes(read, train, loader_options(config, true)));
  add("loader of evaluation", Loader::planned_bytes(read, test, loader_options(config, false)));
  add("data set", data.bytes);
  if (config.checkpoint.keep > 0) {
    const PersistentTensors tensors{session.store().parameters(), session.store().states()};
    add("checkpoint",
        static_cast<int64_t>(CheckpointImage::planned_bytes(tensors, print_config(config))));
  }
  return need;
}

int64_t largest_batch(const Config& config, int64_t limit) {
  const int64_t most = most_images(config);
  int64_t fits = 0, fails = most + 1;
  int64_t fits_bytes = 0;
  // What a batch needs grows nearly like a line, so the next guess lies on the one through the last
  // that fits and a smaller one; the middle where that does not close in.
  for (int64_t guess = std::min<int64_t>(std::max<int64_t>(config.data.batch, 1), most), round = 0;
       fails - fits > 1; ++round) {
    const int64_t bytes = need_at(config, guess);
    if (bytes <= limit) {
      fits = guess;
      fits_bytes = bytes;
    } else {
      fails = guess;
    }
    if (fits == 0) {
      guess = std::max<int64_t>(fails / 2, 1);
    } else if (round % 3 == 2 && fails <= most) {
      guess = fits + (fails - fits) / 2;
    } else {
      const double each = static_cast<double>(fits_bytes) / static_cast<double>(fits);
      guess = fits + static_cast<int64_t>(static_cast<double>(limit - fits_bytes) / each);
    }
    guess = std::clamp(guess, fits + 1, std::max(fits + 1, fails - 1));
    if (fails == 1) return 0;
  }
  return fits;
}

void require_fit(const Config& config) {
  if (!config.memory.limit) return;
  if (config.mode == "eager")
    throw ConfigError("memory.limit: needs mode: graph, where the need is known before the run");
  const int64_t limit = config.memory.limit->bytes;
  const MemoryNeed need = memory_need(config);
  if (need.bytes() <= limit) return;
  throw OutOfMemory(fmt::format(
      "memory.limit: this training needs {} ({} bytes), the limit is {}, over by {}\n"
      "by class, in the arena at its fullest time:\n{}"
      "the largest tensors of that time:\n{}"
      "what would fit:\n{}",
      byte_text(need.bytes()), need.bytes(), byte_text(limit), byte_text(need.bytes() - limit),
      by_class(need), at_the_peak(need.report), what_fits(config, limit)));
}

std::string headroom_text(const Config& config, int64_t used) {
  const bool limited = config.memory.limit.has_value();
  const int64_t there = limited ? config.memory.limit->bytes : used + host_memory().free;
  // From two needs by a straight line: good to a percent or two, and nearly free.
  const int64_t batch = config.data.batch, half = std::max<int64_t>(batch / 2, 1);
  std::string growth;
  if (batch > half) {
    const int64_t at_batch = need_at(config, batch), at_half = need_at(config, half);
    const double each = static_cast<double>(at_batch - at_half) / static_cast<double>(batch - half);
    const auto more =
        static_cast<int64_t>(static_cast<double>(there - at_batch) / std::max(each, 1.0));
    const int64_t most = most_images(config);
    if (batch + more >= most && most > batch) {
      growth = fmt::format("; data.batch could grow to all {} images", most);
    } else if (more > 0 && most > batch) {
      growth = fmt::format("; data.batch could grow to about {}", batch + more);
    }
  }
  return fmt::format("{} of {} {}{}", byte_text(used), byte_text(there),
                     limited ? "of memory.limit" : "that this machine has free", growth);
}

}  // namespace tessera
