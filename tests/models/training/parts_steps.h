// Three training steps of a process with its parts of a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/models/config/config.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/exchange/exchange.h"

namespace tessera {

inline const Normalization kNormalization{{0.5f, 0.4f, 0.3f}, {0.2f, 0.25f, 0.3f}};

// Batch norm, dropout, an average of the weights, clipping by the norm of all gradients.
inline Config norm_config() {
  Config config = parse_config(R"(model:
  layers:
    - {conv: {filters: 8, kernel: 3, bias: false}}
    - batch_norm
    - relu
    - {max_pool: {size: 2}}
    - {dropout: {probability: 0.3}}
    - {conv: {filters: 8, kernel: 3, bias: false}}
    - batch_norm
    - relu
    - flatten
    - {linear: {units: 10}}
data: {name: synthetic, image_size: 16}
)",
                               "parts");
  config.ema.decay = 0.9;
  config.optimizer.clip_norm = 1.0;
  config.data.batch = 16;
  return config;
}

// Returns all persistent tensors after three steps, the last of fewer images, and the losses.
struct Trained {
  std::vector<std::string> bytes;
  std::vector<float> losses, correct;
  bool operator==(const Trained&) const = default;
};
inline Trained trained(const Config& config, const std::shared_ptr<Exchange>& exchange,
                       Device device = {}, const CompileOptions& options = {}) {
  const SettingsScope settings({.threads = 1});
  Session session(config, device, {16, 16, 3}, kNormalization, options, exchange);
  const std::vector<int64_t> batches{config.data.batch, config.data.batch, config.data.batch - 3};
  for (const int64_t batch : batches) session.train_step(batch);
  session.bind();
  Trained all;
  for (size_t number = 0; number < batches.size(); ++number) {
    const int64_t batch = batches[number],
                  parts = std::min<int64_t>(batch, config.train.accumulate);
    PartRange own{0, parts};
    if (exchange) own = parts_of_rank(parts, exchange->rank(), exchange->size());
    const auto images = random_uniform({batch, 16, 16, 3}, number, 0, 256).to_vector<float>();
    std::vector<uint8_t> pixels;
    std::vector<int32_t> labels;
    for (int64_t i = batch * own.first / parts; i < batch * own.last / parts; ++i)
      pixels.insert(pixels.end(), images.begin() + i * 768, images.begin() + (i + 1) * 768);
    for (int64_t i = 0; i < batch; ++i)
      labels.push_back(static_cast<int32_t>((i * i + static_cast<int64_t>(number)) % 10));
    CompiledStep& step = session.train_step(batch);
    Tensor(step.input(0)).assign(std::span<const uint8_t>(pixels));
    Tensor(step.input(1)).assign(std::span<const int32_t>(labels));
    Tensor(step.input(2)).assign_scalar(0.1);
    Tensor(step.input(3))
        .assign(std::span<const int64_t>(std::vector<int64_t>{
            static_cast<int64_t>(number), static_cast<int64_t>(number) * batch}));
    step.run();
    all.losses.push_back(step.output(0).item<float>());
    all.correct.push_back(step.output(1).item<float>());
  }
  for (const Tensor& tensor : session.store().persistent()) {
    const Tensor here = copy(tensor, Device{});
    all.bytes.emplace_back(reinterpret_cast<const char*>(here.impl()->data()), here.spec().bytes());
  }
  return all;
}

}  // namespace tessera
