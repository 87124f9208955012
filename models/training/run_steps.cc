#include "tessera/models/training/run_steps.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/network.h"
#include "tessera/models/config/parameter_names.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/run/weights.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/generated_batches.h"
#include "tessera/models/training/memory_budget.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

std::vector<int64_t> batches_of_epoch(int64_t images, int64_t batch) {
  if (images == 0) return {batch};
  const int64_t full = std::min(batch, images), rest = images % full;
  return rest == 0 ? std::vector{full} : std::vector{full, rest};
}

// Of an image as it is read.
ImageShape read_shape(const Config& config, const DataNeed& data) {
  return data.shape.bytes() > 0 ? data.shape : image_shape(config.data);
}

// What train.freeze leaves out; empty where it is not given.
std::string frozen_text(const Config& config, const DataNeed& data) {
  if (config.train.freeze.empty() && config.train.freeze_all_but.empty()) return "";
  const ParameterCount count = parameter_count(config, data);
  return fmt::format(
      "frozen: {} of {} parameter tensors, {}, which have no gradients and no optimizer state",
      count.frozen_tensors, count.tensors, byte_text(count.frozen_bytes));
}

Normalization plain_normalization(const ImageShape& image) {
  const auto channels = static_cast<size_t>(image.channels);
  return {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.25f)};
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
    case Purpose::verification:
      return "verification";
  }
  return "";
}

ImageShape step_image(const Config& config, const DataNeed& data, Purpose purpose) {
  const ImageShape read = read_shape(config, data);
  return purpose == Purpose::evaluation ? read : output_shape(make_transforms(config.data), read);
}

ParameterCount parameter_count(const Config& config, const DataNeed& data) {
  const DeviceScope cpu("cpu:0");
  Store store;
  const auto network = make_network(config, step_image(config, data, Purpose::training), store);
  ParameterCount count;
  const auto add = [&](int sign) {  // of what is not frozen
    for (const Tensor& tensor : store.parameters()) {
      count.frozen_tensors += sign;
      count.frozen += sign * tensor.spec().shape.elements();
      count.frozen_bytes += sign * static_cast<int64_t>(tensor.spec().bytes());
    }
  };
  add(1);
  count.tensors = count.frozen_tensors;
  count.trainable = count.frozen;
  freeze(config.train, store);
  add(-1);
  count.trainable -= count.frozen;
  return count;
}

DataNeed known_data(const Config& config, Purpose purpose) {
  DataSource source = data_source(config);
  source.test_only = purpose == Purpose::evaluation;
  return data_need(source);
}

RunSteps run_steps(const Config& config, const DataNeed& data, Purpose purpose) {
  const int64_t batch = config.data.batch, half = (batch + 1) / 2,
                evaluated = evaluation_batch(config);
  switch (purpose) {
    case Purpose::training: {
      RunSteps steps{batches_of_epoch(data.train_count, batch),
                     batches_of_epoch(data.test_count, evaluated)};
      if (config.data.validation.any())
        for (const int64_t count : batches_of_epoch(data.validation_count, evaluated))
          if (std::find(steps.evaluation.begin(), steps.evaluation.end(), count) ==
              steps.evaluation.end())
            steps.evaluation.push_back(count);
      return steps;
    }
    case Purpose::evaluation:
      return {{}, batches_of_epoch(data.test_count, evaluated)};
    case Purpose::timing:
      return {{batch}, {}};
    case Purpose::verification:
      return {{batch, half}, {std::min(half, evaluated)}};
  }
  return {};
}

std::vector<std::string> remarks_on(const Config& config, const DataNeed& data) {
  std::vector<std::string> lines;
  for (const std::string& aside : config.put_aside)
    lines.push_back("put aside, as nothing reads it beside the overrides: " + aside);
  if (data.train_count > 0 && data.train_count < config.data.batch)
    lines.push_back(fmt::format("data.batch is cut from {} to the {} training images",
                                config.data.batch, data.train_count));
  if (data.train_count > 0)
    for (std::string& line : never_reached(config, data.train_count))
      lines.push_back(std::move(line));
  if (config.optimizer.name == "lars" && config.optimizer.weight_decay == 0)
    lines.emplace_back(
        "optimizer.weight_decay: lars scales the steps of parameters that decay, but is 0: none is "
        "scaled, and all move as with sgd; set it above 0");
  if (config.checkpoint.keep == 0)
    lines.emplace_back(
        "checkpoint.keep: is 0: no checkpoint is written, and a training that is interrupted "
        "begins anew; set it above 0 to go on with --resume");
  if (const std::string frozen = frozen_text(config, data); !frozen.empty())
    lines.push_back(frozen);
  return lines;
}

std::unique_ptr<Session> prepared_session(const Config& config, const DataNeed& data,
                                          Purpose purpose, const CompileOptions& options,
                                          const Normalization* normalization) {
  const ImageShape image = step_image(config, data, purpose);
  const auto make = [&](const CompileOptions& with) {
    auto session = std::make_unique<Session>(
        config, image, normalization != nullptr ? *normalization : plain_normalization(image),
        with);
    if (config.mode == Mode::kEager) limit_eager_memory(config, data, purpose, *session);
    const RunSteps steps = run_steps(config, data, purpose);
    for (const int64_t count : steps.train) session->train_step(count);
    for (const int64_t count : steps.evaluation) session->evaluation_step(count);
    return session;
  };
  if (!config.memory.budget || config.mode == Mode::kEager) return make(options);
  return session_within_budget(config, data, purpose, options, make);
}

CompiledStep& first_step(Session& session, const RunSteps& steps) {
  return steps.train.empty() ? session.evaluation_step(steps.evaluation.front())
                             : session.train_step(steps.train.front());
}

std::vector<HostBuffer> loader_blocks(const Config& config, const DataNeed& data, Purpose purpose,
                                      Device device) {
  const ImageShape read = read_shape(config, data);
  const auto bytes = [&](int64_t images, bool training) {
    const LoaderOptions options = loader_options(config, training, device);
    return static_cast<size_t>(
        Loader::planned_bytes(read, images > 0 ? images : options.batch, options));
  };
  const HostBuffer evaluation{"loader of evaluation", bytes(data.test_count, false)};
  if (purpose != Purpose::training) return {evaluation};
  std::vector<HostBuffer> blocks{{"loader of training", bytes(data.train_count, true)}, evaluation};
  if (config.data.validation.any())
    blocks.push_back({"loader of validation", bytes(data.validation_count, false)});
  return blocks;
}

std::vector<HostBuffer> blocks_beside(const Config& config, const DataNeed& data, Purpose purpose,
                                      const Tensors& persistent) {
  if (purpose == Purpose::timing || purpose == Purpose::verification) {
    const ImageShape image = step_image(config, data, purpose);
    const int64_t bytes = GeneratedBatches::planned_bytes(config.data.batch, image);
    return {{"generated batches", static_cast<size_t>(bytes)}};
  }
  std::vector<HostBuffer> blocks = loader_blocks(config, data, purpose, persistent.at(0).device());
  if (data.bytes > 0) blocks.push_back({"data set", static_cast<size_t>(data.bytes)});
  if (const size_t copied = weights_copy_bytes(persistent); copied > 0)
    blocks.push_back({"weights", copied});
  if (purpose == Purpose::training)
    for (HostBuffer& block : Checkpointing::planned_buffers(config, persistent))
      blocks.push_back(std::move(block));
  return blocks;
}

}  // namespace tessera
