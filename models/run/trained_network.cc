#include "tessera/models/run/trained_network.h"

#include <filesystem>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/array_file.h"
#include "tessera/models/run/checkpoint.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/run/run_lock.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

namespace {

// Sets to.weights and to.inference.
void find_weights(const std::string& run_dir, const std::string& checkpoint, TrainedNetwork& to) {
  refuse_hdf5_run(run_dir);
  if (!checkpoint.empty()) {
    const bool name = checkpoint == "best" || checkpoint == "latest";
    const CheckpointFile file(
        checkpoint_file(name ? checkpoints_path(run_dir) + "/" + checkpoint : checkpoint));
    to.weights = file.path(), to.inference = file.inference();
    return;
  }
  to.weights = weights_path(run_dir);
  if (!std::filesystem::exists(to.weights))
    throw CheckpointError(
        fmt::format("run folder: '{}' does not exist, because the training did not finish; "
                    "use --checkpoint=latest for the weights so far",
                    to.weights));
  to.inference = weights_inference(to.weights);
}

ImageShape image_in(const TrainedNetwork& trained) try {
  const Json input = Json::parse(trained.inference)["input"];
  const auto extent = [&](const char* name) {
    constexpr int64_t kMax = 1 << 16;
    const int64_t value = input[name].integer();
    if (value < 1 || value > kMax) throw Error(fmt::format("'{}' is {}", name, value));
    return static_cast<int>(value);
  };
  return {extent("height"), extent("width"), extent("channels")};
} catch (const Error& error) {
  throw CheckpointError(
      fmt::format("weights '{}': have no image size (docs/inference.md: {}); train with this "
                  "program, or with --resume, to add it",
                  trained.weights, error.what()));
}

}  // namespace

std::unique_ptr<TrainedNetwork> trained_network(const std::string& run_dir,
                                                const std::string& checkpoint) {
  const std::string config_path = resolved_config_path(run_dir);
  if (!std::filesystem::exists(config_path))
    throw ConfigError(
        fmt::format("run folder: '{}' does not exist; use the folder of a training", config_path));
  auto trained = std::make_unique<TrainedNetwork>();
  trained->config = load_resolved_config(config_path);
  find_weights(run_dir, checkpoint, *trained);
  trained->image = image_in(*trained);
  const DeviceScope cpu("cpu:0");
  trained->network = make_network(trained->config, trained->image, trained->store);
  Pretrained weights(trained->weights);
  weights.match(trained->config, trained->image);
  weights.load(trained->store);
  return trained;
}

}  // namespace tessera
