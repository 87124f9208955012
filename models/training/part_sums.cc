#include <algorithm>
#include <optional>
#include <utility>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/models/training/session.h"

namespace tessera {

namespace {

// A bucket of gradients is sent when it has this size.
constexpr size_t kBucketBytes = 1 << 20;

// Returns the inputs of an update that are not persistent: statistics of the part.
std::vector<size_t> values_of(const DeferredUpdate& update) {
  Specs in;
  for (const Tensor& input : update.inputs) in.push_back(input.spec());
  std::vector<bool> persistent(in.size());
  for (size_t o = 0; o < update.op->infer(in).size(); ++o)
    persistent[static_cast<size_t>(update.op->updates(static_cast<int>(o)))] = true;
  std::vector<size_t> values;
  for (size_t i = 0; i < in.size(); ++i)
    if (!persistent[i]) values.push_back(i);
  return values;
}

// Returns vectors one after the other.
Tensor joined(Tensors all) {
  constexpr size_t kMost = 32;
  while (all.size() > 1) {
    Tensors longer;
    for (size_t i = 0; i < all.size(); i += kMost) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
      longer.push_back(
          concat({begin, begin + static_cast<std::ptrdiff_t>(std::min(kMost, all.size() - i))}, 0));
    }
    all = std::move(longer);
  }
  return all.front();
}

// Returns the values of all updates of a part, one after the other.
Tensor joined_values(const std::vector<DeferredUpdate>& updates) {
  Tensors all;
  for (const DeferredUpdate& update : updates)
    for (const size_t i : values_of(update))
      all.push_back(reshape(update.inputs[i], {update.inputs[i].elements()}));
  return joined(std::move(all));
}

}  // namespace

PartSums::PartSums(int64_t parts, const Tensors& parameters, std::shared_ptr<Exchange> exchange)
    : parts_(parts),
      exchange_(std::move(exchange)),
      own_(exchange_ ? parts_of_rank(parts, exchange_->rank(), exchange_->size())
                     : PartRange{0, parts}),
      abandon_(exchange_) {
  if (!exchange_) return;
  // The last parameters have their gradients first.
  for (size_t last = parameters.size(); last > 0; last = buckets_.back().first) {
    size_t first = last, bytes = 0;
    while (first > 0 && last - first < kMaxFolded && bytes < kBucketBytes)
      bytes += parameters[--first].spec().bytes();
    buckets_.push_back({first, last, last - first});
  }
}

// Returns the value plus those of the sums that it completes.
Tensor PartSums::carried(const std::function<Tensor&(BatchResults&)>& value_of, Tensor value) {
  const NoGradScope no_grad;
  for (auto sum = sums_.rbegin(); sum != sums_.rend() - kept_; ++sum)
    value = std::exchange(value_of(*sum), Tensor()) + value;
  return value;
}

void PartSums::add(int64_t k,
                   const std::function<BatchResults(const GradientSink& sink)>& compute) {
  kept_ = std::ssize(sums_) - PartTree(parts_).push(nodes_, {0, k});
  std::optional<DeferUpdatesScope> defer;
  if (exchange_) defer.emplace(updates_.emplace_back());
  BatchResults now;
  const BatchResults part = compute([&](size_t i, Tensor gradient) {
    if (now.gradients.size() <= i) now.gradients.resize(i + 1);
    now.gradients[i] =
        carried([i](BatchResults& x) -> Tensor& { return x.gradients[i]; }, std::move(gradient));
    if (!exchange_ || k + 1 != own_.last) return;
    start_statistics();
    complete(i, now.gradients);
  });
  now.loss = carried(std::mem_fn(&BatchResults::loss), detach(part.loss));
  now.correct = carried(std::mem_fn(&BatchResults::correct), part.correct);
  sums_.erase(sums_.begin() + kept_, sums_.end());
  sums_.push_back(std::move(now));
}

// Counts a gradient of which this process has all its sums: those that are kept, and the last.
void PartSums::complete(size_t parameter, Tensors& last) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    if (parameter < bucket.first || parameter >= bucket.last || --bucket.missing > 0) continue;
    std::vector<Tensors> own;
    for (size_t i = bucket.first; i < bucket.last; ++i) {
      Tensors& sums = own.emplace_back();
      for (auto sum = sums_.begin(); sum != sums_.begin() + kept_; ++sum)
        sums.push_back(std::exchange(sum->gradients[i], Tensor()));
      sums.push_back(std::exchange(last[i], Tensor()));
    }
    bucket.sum = start_fold(exchange_, static_cast<int>(b), parts_, own);
  }
}

BatchResults PartSums::total() {
  if (!exchange_) return std::move(sums_.front());
  start_statistics();  // if there are no gradients
  std::vector<Tensors> own(2);
  for (BatchResults& sum : sums_) own[0].push_back(sum.loss), own[1].push_back(sum.correct);
  const Exchanged numbers = start_fold(exchange_, static_cast<int>(buckets_.size()), parts_, own);
  BatchResults all;
  all.gradients.resize(sums_.front().gradients.size());
  for (Bucket& bucket : buckets_) {
    Tensors sums = std::exchange(bucket.sum, {}).wait();
    for (size_t i = bucket.first; i < bucket.last; ++i)
      all.gradients[i] = std::move(sums[i - bucket.first]);
  }
  Tensors sums = numbers.wait();
  all.loss = sums[0], all.correct = sums[1];
  update_statistics();
  return all;
}

// Sends the statistics of own parts, once the forward pass of the last one is done.
void PartSums::start_statistics() {
  if (statistics_.op || updates_.front().empty()) return;
  for (const auto& updates : updates_) own_statistics_.push_back(joined_values(updates));
  statistics_ =
      start_spread(exchange_, static_cast<int>(buckets_.size()) + 1, parts_, own_statistics_);
}

void PartSums::update_statistics() {
  if (!statistics_.op) return;
  const Tensors own = std::exchange(own_statistics_, {});
  const Tensors others = std::exchange(statistics_, {}).wait();
  for (int64_t k = 0; k < parts_; ++k) {
    const bool mine = k >= own_.first && k < own_.last;
    const Tensor& values = mine
                               ? own[static_cast<size_t>(k - own_.first)]
                               : others[static_cast<size_t>(k < own_.first ? k : k - own_.count())];
    int64_t at = 0;
    for (const DeferredUpdate& update : updates_.front()) {
      const ModulePathReset module_path(update.module_path);
      Tensors inputs = update.inputs;
      for (const size_t i : values_of(update)) {
        const int64_t end = at + inputs[i].elements();
        inputs[i] = reshape(rows(values, std::exchange(at, end), end), inputs[i].shape());
      }
      apply(update.op, inputs);
    }
  }
}

}  // namespace tessera
