#include "tessera/models/training/run.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/network.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/exchange/exchange.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

std::vector<int64_t> batches_of_epoch(int64_t images, int64_t batch) {
  if (images == 0) return {batch};
  const int64_t full = std::min(batch, images), rest = images % full;
  return rest == 0 ? std::vector{full} : std::vector{full, rest};
}

DataSource source_of(const Config& config, Purpose purpose) {
  DataSource source = data_source(config);
  source.test_only = purpose == Purpose::evaluation;
  return source;
}

}  // namespace

const char* purpose_name(Purpose purpose) {
  constexpr const char* kNames[] = {"training", "evaluation", "timing", "verification"};
  return kNames[static_cast<size_t>(purpose)];
}

Run::Run(Config config, Purpose purpose, std::optional<DataNeed> data, CompileOptions options)
    : config_(with_classes(std::move(config))),
      purpose_(purpose),
      options_(std::move(options)),
      chosen_(std::make_shared<std::optional<DeviceChoice>>()),
      data_need_(std::move(data)) {}
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;

Run Run::as(Purpose purpose, std::optional<DataNeed> data, CompileOptions options) const {
  Run other(config_, purpose, std::move(data), std::move(options));
  other.chosen_ = chosen_;
  other.exchange_ = exchange_;
  return other;
}

Run Run::shared(Config config, std::shared_ptr<Exchange> exchange, CompileOptions options) {
  Run run(std::move(config), Purpose::training, {}, std::move(options));
  run.exchange_ = std::move(exchange);
  return run;
}

bool Run::leads() const { return !exchange_ || exchange_->rank() == 0; }

LoaderOptions Run::training_loader(Device device) const {
  LoaderOptions options = loader_options(config_, true, device);
  if (!exchange_) return options;
  options.rank = exchange_->rank(), options.world = exchange_->size();
  options.parts = config_.train.accumulate;
  return options;
}

Settings Run::settings() const { return settings_of(config_); }

const DeviceChoice& Run::choice() const {
  if (!*chosen_) {
    const SettingsScope scope(settings());
    *chosen_ = choose_device(config_);
    if (exchange_) *chosen_ = choice_of_rank(**chosen_, config_, exchange_->rank_on_host());
  }
  return **chosen_;
}

Device Run::device() const {
  const DeviceChoice& chosen = choice();
  static std::once_flag said;  // one warning: all runs use one driver
  if (chosen.warning)
    std::call_once(said, [&] {
      log(LogLevel::warning,
          fmt::format("device: auto chose {}, because {}", chosen.device.name(), why_no_gpu()));
    });
  return chosen.device;
}

const DataNeed& Run::data_need() const {
  if (!data_need_) data_need_ = tessera::data_need(source_of(config_, purpose_));
  return *data_need_;
}

void Run::open(const std::function<Normalization(const Dataset&)>& otherwise) {
  session_.reset();
  data_ = open_data(source_of(config_, purpose_));
  data_need_ = tessera::data_need(data_);
  normalization_ = normalization_of(
      config_, purpose_ == Purpose::training ? *data_.train : *data_.test, otherwise);
}

ImageShape Run::read_image() const {
  const ImageShape& known = data_need().shape;
  return known.bytes() > 0 ? known : image_shape(config_.data);
}

ImageShape Run::image() const {
  return purpose_ == Purpose::evaluation ? read_image() : training_image(config_, data_need());
}

RunSteps Run::steps() const {
  const int64_t batch = config_.data.batch, half = (batch + 1) / 2,
                evaluated = evaluation_batch(config_);
  switch (purpose_) {
    case Purpose::training: {
      const DataNeed& data = data_need();
      RunSteps steps{batches_of_epoch(data.train_count, batch),
                     batches_of_epoch(data.test_count, evaluated)};
      if (config_.data.validation.any())
        for (const int64_t count : batches_of_epoch(data.validation_count, evaluated))
          if (std::find(steps.evaluation.begin(), steps.evaluation.end(), count) ==
              steps.evaluation.end())
            steps.evaluation.push_back(count);
      return steps;
    }
    case Purpose::evaluation:
      return {{}, batches_of_epoch(data_need().test_count, evaluated)};
    case Purpose::timing:
      return {{batch}, {}};
    case Purpose::verification:
      return {{batch, half}, {std::min(half, evaluated)}};
  }
  return {};
}

Session& Run::session() const {
  if (session_ == nullptr) session_ = prepared_session(*this);
  return *session_;
}

std::unique_ptr<Session> Run::make_session(const CompileOptions& options) const {
  const ImageShape shape = image();
  auto session = std::make_unique<Session>(
      config_, device(), shape, normalization_ ? *normalization_ : plain_normalization(shape),
      options, purpose_ == Purpose::training || purpose_ == Purpose::timing ? exchange_ : nullptr);
  if (config_.mode == Mode::kEager) limit_eager_memory(*this, *session);
  const RunSteps all = steps();
  for (const int64_t count : all.train) session->train_step(count);
  for (const int64_t count : all.evaluation) session->evaluation_step(count);
  return session;
}

ParameterCount parameter_count(const Run& run) {
  const DeviceScope cpu("cpu:0");
  Store store;
  const auto network =
      make_network(run.config(), training_image(run.config(), run.data_need()), store);
  ParameterCount count;
  const auto add = [&](int sign) {  // parameters that are not frozen
    for (const Tensor& tensor : store.parameters()) {
      count.frozen_tensors += sign;
      count.frozen += sign * tensor.spec().shape.elements();
      count.frozen_bytes += sign * static_cast<int64_t>(tensor.spec().bytes());
    }
  };
  add(1);
  count.tensors = count.frozen_tensors;
  count.trainable = count.frozen;
  freeze(run.config().train, store);
  add(-1);
  count.trainable -= count.frozen;
  return count;
}

std::string device_line(const Run& run) {
  const SettingsScope settings(run.settings());
  const DeviceChoice& chosen = run.choice();
  const std::string text = "device: " + device_text(chosen.device) + "; " + chosen.why;
  const bool asked = chosen.device.is_cpu() && run.config().device != "auto";
  return asked ? text + idle_gpu_text(run.config()) : text;
}

std::vector<std::string> config_notes(const Run& run) {
  const Config& config = run.config();
  const int64_t images = run.data_need().train_count;
  std::vector<std::string> lines;
  for (const std::string& aside : config.ignored_keys)
    lines.push_back("ignored because of an override on the command line: " + aside);
  if (images > 0 && images < config.data.batch)
    lines.push_back(fmt::format("data.batch is cut from {} to the {} training images",
                                config.data.batch, images));
  if (images > 0)
    for (std::string& line : never_reached(config, images)) lines.push_back(std::move(line));
  if (config.optimizer.name == "lars" && config.optimizer.weight_decay == 0)
    lines.emplace_back(
        "optimizer.weight_decay: is 0, but lars scales only the updates of parameters with weight "
        "decay: all are updated as with sgd; set it above 0");
  if (config.precision == Precision::f16 && loss_scaling(config) == LossScaling::off)
    lines.emplace_back(
        "train.loss_scaling: is off: with precision f16 gradients below 6e-8 become 0; set it to "
        "dynamic, or use precision bf16, which has the range of float32");
  if (config.checkpoint.keep == 0)
    lines.emplace_back(
        "checkpoint.keep: is 0: no checkpoint is written, and an interrupted training "
        "starts again from the beginning; set it above 0 to use --resume");
  if (config.train.freeze.empty() && config.train.freeze_all_but.empty()) return lines;
  const ParameterCount count = parameter_count(run);
  lines.push_back(fmt::format(
      "frozen: {} of {} parameter tensors, {}, which have no gradients and no optimizer state",
      count.frozen_tensors, count.tensors, byte_text(count.frozen_bytes)));
  return lines;
}

}  // namespace tessera
