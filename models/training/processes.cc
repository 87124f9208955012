#include "tessera/models/training/processes.h"

#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/models/run/environment.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/files/sha256.h"

namespace tessera {

namespace {

// Tags above those of a step's buckets.
constexpr int kStopTag = 16000;

// Returns a checksum of all labels and of some images.
std::string checksum_of(const Dataset& data) {
  constexpr int64_t kImages = 16;
  Sha256 sum;
  for (int64_t i = 0; i < data.count(); ++i) {
    const int64_t label = data.label(i);
    sum.add(std::as_bytes(std::span(&label, 1)));
  }
  std::vector<uint8_t> image(static_cast<size_t>(data.shape().bytes()));
  for (int64_t i = 0; i < std::min(kImages, data.count()); ++i) {
    data.read(i * data.count() / kImages % data.count(), image.data());
    sum.add(std::as_bytes(std::span(image)));
  }
  return sum.digest().substr(0, 16);
}

// Returns a checksum of a small computation, which another processor or library may do otherwise.
std::string checksum_of_arithmetic() {
  const Tensor x = random_uniform({2, 16, 16, 16}, 1, -1, 1),
               w = random_uniform({16, 3, 3, 16}, 2, -1, 1);
  const Tensor y = exp(conv2d(x, w, {.padding = 1}) * 0.01), rows = reshape(y, {512, 16});
  Sha256 sum;
  for (const Tensor& tensor : {y, matmul(rows, transpose(rows))}) {
    const std::vector<float> values = tensor.to_vector<float>();
    sum.add(std::as_bytes(std::span(values)));
  }
  return sum.digest().substr(0, 16);
}

// Returns the facts in which processes must not differ, by name.
std::string facts_text(const Run& run) {
  const Dataset& data = *run.data().train;
  std::string text = fmt::format(
      "data\t{}, {} images, {} classes, checksum {}\narithmetic\tchecksum {}\n", data.name(),
      data.count(), data.classes(), checksum_of(data), checksum_of_arithmetic());
  for (const auto& [name, value] : facts_of_bits(environment_json(run.device())))
    text += fmt::format("{}\t{}\n", name, value);
  const std::string config = print_config(run.config());
  int line = 0;
  for (std::string_view rest = config; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    text += fmt::format("line {} of the configuration\t{}\n", ++line, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return text;
}

std::map<std::string, std::string> facts_in(std::string_view text) {
  std::map<std::string, std::string> facts;
  while (!text.empty()) {
    const size_t tab = text.find('\t'), end = text.find('\n');
    facts[std::string(text.substr(0, tab))] = text.substr(tab + 1, end - tab - 1);
    text.remove_prefix(end + 1);
  }
  return facts;
}

}  // namespace

void require_shareable(const Run& run) {
  if (!run.exchange()) return;
  const Config& config = run.config();
  const int processes = run.exchange()->size();
  const auto refuse = [&](const std::string& text) {
    throw CommonError(fmt::format("{} processes: {}", processes, text));
  };
  if (config.train.accumulate < processes)
    refuse(fmt::format(
        "train.accumulate is {}, and each process computes at least one part of a batch; set "
        "train.accumulate={} or more (another sum, hence other last bits), or start fewer",
        config.train.accumulate, processes));
  for (const int64_t batch : run.steps().train)
    if (batch < processes)
      refuse(
          fmt::format("data.batch: the last batch of an epoch has {} image(s), fewer than "
                      "processes; change data.batch, or start fewer",
                      batch));
}

void compare_processes(const Run& run) {
  const std::shared_ptr<Exchange>& exchange = run.exchange();
  if (!exchange) return;
  const std::vector<std::string> all = exchange->gather(facts_text(run));
  const auto first = facts_in(all[0]);
  std::string differences;
  for (size_t rank = 1; rank < all.size(); ++rank)
    for (const auto& [name, value] : facts_in(all[rank])) {
      const auto there = first.find(name);
      if (there != first.end() && there->second == value) continue;
      differences += fmt::format("\n  process {} has {} {}, process 0 {}", rank, name, value,
                                 there == first.end() ? "none" : there->second);
      if (std::ranges::count(differences, '\n') >= 8) break;
    }
  if (!differences.empty())
    throw CommonError("the processes of the training differ, so their results would too:" +
                      differences);
}

std::string text_of_leader(Exchange& exchange, const std::string& own) {
  return exchange.gather(exchange.rank() == 0 ? own : "").front();
}

std::string processes_line(const Run& run) {
  const Exchange& exchange = *run.exchange();
  std::map<std::string, int> hosts;
  for (int rank = 0; rank < exchange.size(); ++rank) ++hosts[exchange.host(rank)];
  std::string text =
      fmt::format("processes: {}, {} threads each, {} parts of a batch; on ", exchange.size(),
                  cpu_context().threads(), run.config().train.accumulate);
  bool more = false;
  for (const auto& [host, count] : hosts)
    text += fmt::format("{}{} ({})", std::exchange(more, true) ? ", " : "", host, count);
  return text;
}

SharedStop::SharedStop(std::shared_ptr<Exchange> exchange, const std::atomic<int>* stop)
    : exchange_(std::move(exchange)), stop_(stop), abandon_(exchange_) {
  if (!exchange_) return;
  others_.resize(static_cast<size_t>(exchange_->size() - 1));
  asked_ = std::make_unique<SpreadJob>(*exchange_, kStopTag, exchange_->size(), 1);
}

SharedStop::~SharedStop() {
  if (!waits_ || abandon_.by_error()) return;
  try {
    exchange_->wait(*asked_);
  } catch (const PeerError&) {  // the results are complete
  }
}

void SharedStop::before_step() {
  if (!exchange_) return;
  if (waits_) {
    exchange_->wait(*asked_);
    agreed_ = static_cast<int>(mine_);
    for (const float other : others_) agreed_ = std::max(agreed_, static_cast<int>(other));
  }
  mine_ = static_cast<float>(own());
  asked_->own[0] = &mine_;
  for (size_t i = 0; i < others_.size(); ++i) asked_->others[i] = &others_[i];
  waits_ = true;
  exchange_->post(*asked_);
}

}  // namespace tessera
