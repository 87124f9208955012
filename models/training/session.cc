#include "tessera/models/training/session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/arena.h"
#include "tessera/graph/program.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/ops/metrics.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/layers/optimizers/clip.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/network.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/data/augment/mix.h"
#include "tessera/models/run/profile_costs.h"
#include "tessera/models/run/weights.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

const Planner* planner_of(const Config& config) {
  if (const Planner* planner = find_planner(config.memory.planner)) return planner;
  throw ConfigError(fmt::format("memory.planner: '{}' is not one of the planners {}",
                                config.memory.planner, planner_names()));
}

const RecomputeStrategy* strategy_of(const Config& config) {
  const std::string& name = config.memory.recompute;
  if (const RecomputeStrategy* strategy = find_recompute_strategy(name)) return strategy;
  throw ConfigError(fmt::format("memory.recompute: '{}' is not one of the strategies {}", name,
                                recompute_strategy_names()));
}

Specs batch_specs(const ImageShape& image, int64_t batch, Device device) {
  return {{DType::u8, {batch, image.height, image.width, image.channels}, device},
          {DType::i32, {batch}, device}};
}

// While it exists, parameters and running statistics have the values of their averages.
class Averaged {
 public:
  explicit Averaged(Store& store) : store_(store) { store_.swap_ema(); }
  ~Averaged() { store_.swap_ema(); }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  Store& store_;
};

// Returns t', or 1 and 0 if there is a threshold.
Tensor smoothed(const LossConfig& config, const Tensor& targets) {
  const double s = config.label_smoothing;
  if (s == 0 && !config.target_threshold) return targets;
  ScalarBuilder b(1);
  const int rest = b.value(s / static_cast<double>(targets.shape().back()));
  int t = b.add(b.mul(b.value(1 - s), b.in(0)), rest);
  if (config.target_threshold) t = b.push(ScalarOp::greater, t, b.value(*config.target_threshold));
  return pointwise("smooth", b.build(t), {targets});
}

Tensor class_weights(const LossConfig& config, DType dtype) {
  const std::vector<double>& numbers = config.class_weights;
  return constant(cast(from_vector({static_cast<int64_t>(numbers.size())}, numbers), dtype));
}

// Returns rows / sum(t w), 0 if that sum is 0.
Tensor scale_of(const Tensor& t, const Tensor& w) {
  ScalarBuilder b(1);
  const int quotient = b.div(b.value(static_cast<double>(t.shape()[0])), b.in(0));
  const int positive = b.push(ScalarOp::greater, b.in(0), b.value(0));
  return pointwise("weight_scale",
                   b.build(b.push(ScalarOp::select, positive, quotient, b.value(0))), {sum(t * w)});
}

Tensor weighted(const LossConfig& config, const Tensor& logits, const Tensor& labels,
                const Tensor& targets, const Tensor& scale) {
  const Tensor w = class_weights(config, logits.dtype());
  const Tensor t = targets ? targets : one_hot(labels, logits.shape().back(), logits.dtype());
  Tensor each = smoothed(config, t) * w;
  if (!targets) each = each * (scale ? scale : scale_of(t, w));
  return cross_entropy(logits, detach(each));
}

}  // namespace

ImageShape training_image(const Config& config, const DataNeed& data) {
  const ImageShape read = data.shape.bytes() > 0 ? data.shape : image_shape(config.data);
  return output_shape(make_transforms(config.data), read);
}

Normalization plain_normalization(const ImageShape& image) {
  const auto channels = static_cast<size_t>(image.channels);
  return {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.25f)};
}

Session::Session(const Config& config, Device device, const ImageShape& image,
                 const Normalization& normalization, CompileOptions options,
                 std::shared_ptr<Exchange> exchange)
    : config_(with_classes(config)),
      image_(image),
      normalization_(normalization),
      device_(device),
      store_(config.seed),
      mixes_(make_mix(config.data).any()),
      skips_(config.train.non_finite == OnNonFinite::kSkip ||
             loss_scaling(config) != LossScaling::off),
      exchange_(std::move(exchange)) {
  const Planner* planner = planner_of(config);
  const SettingsScope settings(settings_of(config_));
  const DeviceScope on_device(device_);  // not a member, because sessions may end in any order
  model_ = make_network(config_, image, store_);
  freeze(config.train, store_);
  optimizer_ = make_optimizer(config.optimizer, store_);
  if (config.ema.decay) {
    const Store::EmaScope averages(store_);
    averaged_ = make_network(config_, image, store_);
    ema_ = std::make_unique<Ema>(store_, EmaParams{*config.ema.decay, config.ema.warmup});
  }
  if (loss_scaling(config) != LossScaling::off)
    scale_.emplace(store_, LossScaleParams{loss_scaling(config) == LossScaling::dynamic,
                                           config.train.loss_scale,
                                           static_cast<double>(config.train.loss_scale_interval)});
  arenas_ = std::make_shared<Arenas>();
  options.eager = config.mode == Mode::kEager;
  options.planner = planner;
  options.recompute = strategy_of(config);
  if (options.arena_budget >= 0) options.costs = make_cost_model(config.memory.cost_model);
  options.cuda_graph = config.gpu.cuda_graph;
  options.arenas = arenas_;
  options_ = options;
  options.dump_after.clear();
  functions_.push_back(
      std::make_unique<Compiled>([this](const Tensors& x) { return evaluate(x); }, options));
}

Session::~Session() = default;

BatchResults Session::train_part(const Tensor& images, const Tensor& labels, const Tensor& targets,
                                 double share, const Tensor& scale, const GradientSink& sink) {
  Tensor logits = network_logits(config_, *model_, normalization_, images);
  Tensor loss = training_loss(config_.loss, logits, labels, targets, scale);
  if (share != 1) loss = loss * share;
  Tensor correct = top_k_correct(logits, labels);
  logits = Tensor();  // eager: from here on only the tape holds what gradients need
  gradients(scale_ ? scale_->scaled(loss) : loss, store_.parameters(), sink);
  return {loss, correct, {}};
}

// Runs the own parts of a batch of `batch` images one after the other; the memory of a part is free
// when the next begins. Images and targets are of these parts alone.
BatchResults Session::train_parts(const Tensors& arguments, int64_t batch) {
  const int64_t parts = std::min<int64_t>(config_.train.accumulate, batch);
  const Tensor targets = mixes_ ? arguments[4] : Tensor();
  const Tensor scale =
      parts == 1 || mixes_ ? Tensor() : class_weight_scale(config_.loss, arguments[1]);
  PartSums sums(parts, store_.parameters(), exchange_);
  const int64_t begin = images_of_parts(batch, parts, sums.own()).first;
  for (int64_t k = sums.own().first; k < sums.own().last; ++k) {
    const PartRange images = images_of_parts(batch, parts, {k, k + 1});
    const auto cut = [&](const Tensor& x, int64_t from) {
      return x && images.count() < x.shape()[0] ? rows(x, images.first - from, images.last - from)
                                                : x;
    };
    const RandomScope random(config_.seed, arguments[3], static_cast<uint64_t>(k) << 32);
    sums.add(k, [&](const GradientSink& sink) {
      return train_part(cut(arguments[0], begin), cut(arguments[1], 0), cut(targets, begin),
                        static_cast<double>(images.count()) / static_cast<double>(batch), scale,
                        sink);
    });
  }
  return sums.total();
}

Tensors Session::train(const Tensors& arguments, int64_t batch) {
  TrainingScope training;
  auto [loss, correct, gradients] = train_parts(arguments, batch);
  if (!skips_) {
    update(std::move(gradients), arguments[2]);
    return {loss, correct};
  }
  if (scale_) gradients = scale_->unscaled(std::move(gradients));
  Tensors decisive = gradients;
  decisive.push_back(loss);
  Tensor lr = lr_if_finite(arguments[2], std::move(decisive));
  update(std::move(gradients), lr);
  Tensors results{loss, correct, lr};
  if (loss_scaling(config_) == LossScaling::dynamic) results.push_back(scale_->reciprocal());
  if (scale_) scale_->step(lr);
  return results;
}

void Session::update(Tensors gradients, const Tensor& lr) {
  const OptimizerConfig& config = config_.optimizer;
  if (config.clip_value) gradients = clip_by_value(std::move(gradients), *config.clip_value);
  if (config.clip_norm) gradients = clip_by_norm(std::move(gradients), *config.clip_norm);
  optimizer_->step(gradients, lr);
  if (ema_) ema_->step(lr);
}

Tensors Session::evaluate(const Tensors& arguments) {
  TrainingScope training(false);
  NoGradScope no_grad;
  const Module& model = averaged_ ? *averaged_ : *model_;
  const Tensor logits = evaluated_logits(config_, model, normalization_, arguments[0]);
  const int64_t five = std::min<int64_t>(5, config_.model.classes);
  return {cross_entropy(logits, arguments[1]), top_k_correct(logits, arguments[1]),
          top_k_correct(logits, arguments[1], five), argmax(logits, 1), max(softmax(logits), 1)};
}

CompiledStep& Session::train_step(int64_t batch) {
  if (const auto known = train_steps_.find(batch); known != train_steps_.end())
    return *known->second;
  const int64_t own = own_images(batch).count();
  if (own == 0)
    throw ConfigError(fmt::format("a batch of {} image(s) is too small for {} processes", batch,
                                  exchange_->size()));
  Specs specs = batch_specs(image_, own, device_);
  specs[1].shape = {batch};
  specs.push_back({DType::f64, {}, device_});
  specs.push_back({DType::i64, {2}, device_});
  if (mixes_) specs.push_back({DType::f32, {own, config_.model.classes}, device_});
  const SettingsScope settings(settings_of(config_));
  const DeviceScope device(device_);
  const auto function =
      functions_.insert(functions_.end() - 1,
                        std::make_unique<Compiled>(
                            [this, batch](const Tensors& x) { return train(x, batch); }, options_));
  CompiledStep& step = (*function)->prepare(specs);
  train_steps_[batch] = &step;
  return step;
}

void Session::set_targets(CompiledStep& step, std::span<const int32_t> labels,
                          const int32_t* partners, const float* shares) {
  if (!mixes_) return;
  auto classes = static_cast<size_t>(config_.model.classes);
  auto* targets = reinterpret_cast<float*>(step.host_input(4).impl()->data());
  std::fill_n(targets, labels.size() * classes, 0.f);
  for (size_t i = 0; i < labels.size(); ++i) {
    float* row = targets + i * classes;
    const float share = partners != nullptr ? shares[i] : 1;
    row[labels[i]] = share;
    if (partners != nullptr) row[partners[i]] += 1 - share;
  }
}

CompiledStep& Session::evaluation_step(int64_t batch) {
  if (const auto known = evaluation_steps_.find(batch); known != evaluation_steps_.end())
    return *known->second;
  const SettingsScope settings(settings_of(config_));
  const DeviceScope device(device_);
  CompiledStep& step = functions_.back()->prepare(batch_specs(image_, batch, device_));
  evaluation_steps_[batch] = &step;
  return step;
}

PartRange Session::own_images(int64_t batch) const {
  if (!exchange_) return {0, batch};
  const int64_t parts = std::min<int64_t>(config_.train.accumulate, batch);
  const PartRange own = parts_of_rank(parts, exchange_->rank(), exchange_->size());
  return images_of_parts(batch, parts, own);
}

void Session::use_eager_memory(std::optional<int64_t> limit) {
  AllocatorSettings settings;
  if (limit) settings.limit = static_cast<size_t>(*limit);
  if (config_.memory.reserve) settings.reserve = static_cast<size_t>(config_.memory.reserve->bytes);
  eager_memory_.emplace(device_, config_.memory.allocator, settings);
}

void Session::bind() {
  store_.materialize();
  for (const auto& compiled : functions_)
    for (size_t i = 0; i < compiled->steps(); ++i) compiled->step(i).bind();
}

double Session::compile_milliseconds() const {
  double sum = 0;
  for (const auto& compiled : functions_)
    for (size_t i = 0; i < compiled->steps(); ++i) sum += compiled->step(i).compile_milliseconds();
  return sum;
}

RawMemory& Session::staging_memory() const { return context(device_).staging_memory(); }

size_t Session::arena_bytes() const { return arenas_->bytes(device_); }

// Returns the regions on the device of the steps.
std::vector<MemoryItem> Session::step_regions() const {
  std::vector<MemoryItem> regions{{"persistent", store_.bytes()}, {"arena", arena_bytes()}};
  if (eager_memory_ && config_.memory.reserve)
    regions.push_back({"reserve", static_cast<size_t>(config_.memory.reserve->bytes)});
  for (const auto& compiled : functions_)
    for (size_t i = 0; i < compiled->steps(); ++i)
      if (const size_t bytes = compiled->step(i).slot_bytes(); bytes > 0)
        regions.push_back({"slots", bytes});
  return regions;
}

std::vector<MemoryItem> Session::regions() const {
  if (device_.is_cpu()) return step_regions();
  std::vector<MemoryItem> regions;
  for (const auto& compiled : functions_)
    for (size_t i = 0; i < compiled->steps(); ++i)
      if (const size_t bytes = compiled->step(i).staging_bytes(); bytes > 0)
        regions.push_back({"arguments and results", bytes});
  return regions;
}

std::vector<MemoryItem> Session::gpu_regions() const {
  return device_.is_cpu() ? std::vector<MemoryItem>() : step_regions();
}

void Session::save_weights(const std::string& path, std::optional<int64_t> step,
                           const std::string& inference) {
  const Averaged averaged(store_);
  tessera::save_weights(store_, path, step, inference);
}

void Session::load_weights(const std::string& path) {
  tessera::load_weights(store_, path);
  if (!ema_) return;
  const Averaged averaged(store_);
  tessera::load_weights(store_, path);
}

Tensor class_weight_scale(const LossConfig& config, const Tensor& labels) {
  if (config.class_weights.empty()) return {};
  const Tensor w = class_weights(config, DType::f32);
  return scale_of(one_hot(labels, w.elements(), DType::f32), w);
}

Tensor training_loss(const LossConfig& config, const Tensor& logits, const Tensor& labels,
                     const Tensor& targets, const Tensor& scale) {
  if (config.name == LossKind::kCrossEntropy) {
    if (!config.class_weights.empty()) return weighted(config, logits, labels, targets, scale);
    return cross_entropy(logits, targets ? targets : labels, {config.label_smoothing});
  }
  const Tensor t = targets ? targets : one_hot(labels, logits.shape().back(), logits.dtype());
  const Tensor wanted = smoothed(config, t);
  return config.name == LossKind::kBce ? bce_with_logits(logits, wanted) : mse(logits, wanted);
}

}  // namespace tessera
