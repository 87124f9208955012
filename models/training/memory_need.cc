#include "tessera/models/training/memory_need.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "tessera/graph/arena.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/run/checkpoint.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/data/loader.h"

namespace tessera {
namespace {

constexpr int64_t kMaxTried = int64_t{1} << 20;

ImageShape read_shape(const Config& config, const DataNeed& data) {
  return data.shape.bytes() > 0 ? data.shape : image_shape(config.data);
}

int64_t known_or(int64_t count, int64_t otherwise) { return count > 0 ? count : otherwise; }

// A session with all steps that it will have, prepared as those who run it do.
class Prepared {
 public:
  Prepared(const Config& config, const ImageShape& read, const DataNeed& data, Purpose purpose,
           const CompileOptions& options)
      : image_(purpose == Purpose::evaluation ? read
                                              : output_shape(make_transforms(config.data), read)),
        session_(in_graph_mode(config), image_, plain(image_), options) {
    const int64_t batch = config.data.batch;
    if (purpose == Purpose::timing) {
      first_ = &session_.train_step(batch);
      return;
    }
    const int64_t train = known_or(data.train_count, batch),
                  test = known_or(data.test_count, batch);
    if (purpose == Purpose::training) {
      first_ = &session_.train_step(std::min(batch, train));
      session_.train_step(last_batch(train, batch));
    }
    CompiledStep& evaluation = session_.evaluation_step(std::min(batch, test));
    session_.evaluation_step(last_batch(test, batch));
    if (first_ == nullptr) first_ = &evaluation;
  }

  Session& session() { return session_; }
  Tensors tensors() { return session_.store().persistent(); }
  PlanReport report() {
    PlanReport report = plan_report(*first_->program());
    report.arena = static_cast<int64_t>(session_.arena()->bytes());
    return report;
  }

 private:
  static Config in_graph_mode(Config config) {
    config.mode = "graph";
    return config;
  }
  static Normalization plain(const ImageShape& image) {
    const auto channels = static_cast<size_t>(image.channels);
    return {std::vector<float>(channels), std::vector<float>(channels, 1)};
  }

  const ImageShape image_;
  Session session_;
  CompiledStep* first_ = nullptr;
};

// Everything besides the session.
std::vector<HostBuffer> other_blocks(const Config& config, const ImageShape& read,
                                     const DataNeed& data, Purpose purpose,
                                     const Tensors& tensors) {
  std::vector<HostBuffer> blocks;
  const auto add = [&](const char* name, int64_t bytes) {
    if (bytes > 0) blocks.push_back({name, static_cast<size_t>(bytes)});
  };
  const int64_t batch = config.data.batch;
  if (purpose == Purpose::timing) {
    const ImageShape image = output_shape(make_transforms(config.data), read);
    add("generated batches", GeneratedBatches::planned_bytes(batch, image));
    return blocks;
  }
  const bool training = purpose == Purpose::training;
  if (training)
    add("loader of training", Loader::planned_bytes(read, known_or(data.train_count, batch),
                                                    loader_options(config, true)));
  add("loader of evaluation",
      Loader::planned_bytes(read, known_or(data.test_count, batch), loader_options(config, false)));
  add("data set", data.bytes);
  if (training && config.checkpoint.keep > 0)
    add("checkpoint",
        static_cast<int64_t>(CheckpointImage::planned_bytes(tensors, print_config(config))));
  return blocks;
}

int64_t sum(const std::vector<HostBuffer>& blocks) {
  int64_t sum = 0;
  for (const HostBuffer& block : blocks) sum += static_cast<int64_t>(block.bytes);
  return sum;
}

}  // namespace

const char* purpose_name(Purpose purpose) {
  switch (purpose) {
    case Purpose::training:
      return "training";
    case Purpose::evaluation:
      return "evaluation";
    case Purpose::timing:
      return "timing";
  }
  return "";
}

int64_t MemoryNeed::bytes() const { return sum(blocks); }

int64_t running_batch(const Config& config, const DataNeed& data) {
  return std::min(config.data.batch, known_or(data.train_count, config.data.batch));
}

DataNeed known_data(const Config& config) { return data_need(data_source(config)); }

MemoryNeed memory_need(const Config& config, const DataNeed& data, Purpose purpose,
                       const std::vector<std::string>& disabled_passes) {
  const ImageShape read = read_shape(config, data);
  CompileOptions options;
  options.disabled_passes = disabled_passes;
  Prepared prepared(config, read, data, purpose, options);
  MemoryNeed need{prepared.session().regions(), prepared.report(),
                  data.complete || purpose == Purpose::timing};
  for (HostBuffer& block : other_blocks(config, read, data, purpose, prepared.tensors()))
    need.blocks.push_back(std::move(block));
  return need;
}

MemoryNeed memory_need(const Config& config, Purpose purpose) {
  return memory_need(config, known_data(config), purpose);
}

struct BatchSearch::Impl {
  struct Fixed {  // what does not change with loaders and checkpoints
    std::vector<HostBuffer> regions;
    Tensors tensors;
  };
  const Fixed& fixed(const Config& config);
  int64_t bytes(const Config& config);

  const DataNeed data;
  const Purpose purpose;
  const ImageShape read;
  const int64_t most;              // images that a batch may have
  std::map<int64_t, Fixed> known;  // by batch
};

const BatchSearch::Impl::Fixed& BatchSearch::Impl::fixed(const Config& config) {
  if (const auto found = known.find(config.data.batch); found != known.end()) return found->second;
  Prepared prepared(config, read, data, purpose, {});
  return known[config.data.batch] = {prepared.session().regions(), prepared.tensors()};
}

int64_t BatchSearch::Impl::bytes(const Config& config) {
  const Fixed& parts = fixed(config);
  return sum(parts.regions) + sum(other_blocks(config, read, data, purpose, parts.tensors));
}

namespace {

int64_t most_images(const DataNeed& data, Purpose purpose) {
  if (purpose == Purpose::timing) return kMaxTried;
  const int64_t count = purpose == Purpose::training ? data.train_count : data.test_count;
  return std::min(known_or(count, kMaxTried), kMaxTried);
}

// What a batch needs grows nearly like a line: the one through the two known batches that lie
// around the limit, or both on one side of it; of a single one, through nothing.
int64_t guess(const std::map<int64_t, int64_t>& seen, int64_t fits, int64_t fails, int64_t limit) {
  auto low = seen.find(fits), high = seen.find(fails);
  if (low != seen.end() && high == seen.end() && low != seen.begin()) high = low--;
  if (low == seen.end() && std::next(high) != seen.end()) low = high++;
  std::pair<int64_t, int64_t> a, b;  // batch and bytes
  if (low != seen.end()) a = *low;
  if (high != seen.end()) b = *high;
  if (b.first == 0) std::swap(a, b);
  const double each =
      static_cast<double>(b.second - a.second) / static_cast<double>(b.first - a.first);
  const double more = static_cast<double>(limit - b.second) / std::max(each, 1.0);
  constexpr auto kFar = static_cast<double>(kMaxTried);
  return b.first + static_cast<int64_t>(std::clamp(more, -kFar, kFar));
}

}  // namespace

BatchSearch::BatchSearch(const Config& config, const DataNeed& data, Purpose purpose)
    : impl_(new Impl{data, purpose, read_shape(config, data), most_images(data, purpose), {}}) {}
BatchSearch::~BatchSearch() = default;

int64_t BatchSearch::bytes(const Config& config) { return impl_->bytes(config); }

BatchSearch::Found BatchSearch::largest(const Config& config, int64_t limit, int64_t compile) {
  Config other = config;
  std::map<int64_t, int64_t> seen;
  const int64_t most = impl_->most;
  int64_t fits = 0, fails = most + 1;
  const auto look = [&](int64_t batch) {
    other.data.batch = batch;
    seen[batch] = bytes(other);
    if (seen[batch] <= limit) {
      fits = std::max(fits, batch);
    } else {
      fails = std::min(fails, batch);
    }
  };
  for (const auto& entry : impl_->known)
    if (entry.first > fits && entry.first < fails) look(entry.first);
  if (seen.empty()) look(std::clamp<int64_t>(config.data.batch, 1, most)), --compile;
  for (int64_t round = 0; fails - fits > 1; ++round, --compile) {
    if (compile <= 0) return {fits, false};
    int64_t next = guess(seen, fits, fails, limit);
    // The middle where the line does not close in.
    if (round % 4 == 3 && (fits == 0 || fails <= most)) next = fits + (fails - fits) / 2;
    look(std::clamp(next, fits + 1, fails - 1));
  }
  return {fits, true};
}

int64_t largest_batch(const Config& config, int64_t limit) {
  Config limited = config;
  limited.memory.limit = ByteSize{limit};
  return BatchSearch(limited, known_data(limited), Purpose::training).largest(limited, limit).batch;
}

}  // namespace tessera
