#include "tessera/models/run/trained_network.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/engine/scope.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/array_file.h"
#include "tessera/models/run/checkpoint.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

namespace {

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

// Returns the name of the network in a description; "" if there is none.
std::string model_in(const std::string& inference) try {
  return Json::parse(inference)["model"].string();
} catch (const Error&) {
  return "";
}

std::string list(const auto& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::vector<std::string> names_of_file(const std::string& path, int64_t classes) {
  std::vector<std::string> names;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    names.push_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  if (std::ssize(names) == classes) return names;
  throw DataError(
      fmt::format("class names: '{}' has {} lines, but the network has {} classes; put "
                  "one name into each line",
                  path, names.size(), classes));
}

// The published data.resize belongs to the published data.image_size.
bool sets_image_size(const std::string& setting) { return setting.starts_with("data.image_size="); }

}  // namespace

NetworkOrigin::NetworkOrigin(const NetworkSource& source) : source_(source) {
  if (!is_run()) {
    describe_weights();
    return;
  }
  if (run().empty())
    throw ConfigError(
        "no network: use --run with the folder of a training, or --weights with a file");
  const std::string path = resolved_config_path(run());
  if (!std::filesystem::exists(path))
    throw ConfigError(
        fmt::format("run folder: '{}' does not exist; use the folder of a training", path));
  inference_ = run_file(run(), "inference.json");
}

Config NetworkOrigin::config(const std::vector<std::string>& overrides) const {
  if (is_run()) return load_resolved_config(resolved_config_path(run()), overrides);
  std::vector<std::string> all = settings_;
  if (std::ranges::any_of(overrides, sets_image_size)) all.emplace_back("data.resize=0");
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_config("", "weights", all);
}

std::string NetworkOrigin::weights_file() const {
  if (!is_run()) return weights();
  refuse_hdf5_run(run());
  if (const std::string& name = source_.checkpoint; !name.empty())
    return checkpoint_file(name == "best" || name == "latest" ? checkpoints_path(run()) + "/" + name
                                                              : name);
  const std::string path = weights_path(run());
  if (!std::filesystem::exists(path))
    throw CheckpointError(
        fmt::format("run folder: '{}' does not exist, because the training did not finish; use "
                    "--checkpoint=latest for the weights so far",
                    path));
  return path;
}

// Asks the metadata, then the zoo, then the settings of the user, which override both.
void NetworkOrigin::describe_weights() {
  Pretrained file(weights());
  const std::string& metadata = file.inference();
  const std::optional<ImageShape> input = input_in(metadata);
  std::string model = source_.model;
  if (model.empty() && input) model = model_in(metadata);
  if (model.empty() || model == "layers")
    throw ConfigError(fmt::format(
        "weights '{}': do not tell their network; add --model with a name of the zoo, or use --run",
        weights()));
  const PublishedInput published = published_input(model);
  std::vector<std::string>& all = settings_;
  all = {"data.name=image_folder", "model.name=" + model, "model.classes=1000"};
  const int size = input ? input->height : published.image_size;
  if (size > 0) all.push_back(fmt::format("data.image_size={}", size));
  const int resize = input ? resize_in(metadata) : published.resize;
  if (size > 0 && std::ranges::none_of(source_.settings, sets_image_size))
    all.push_back(fmt::format("data.resize={}", resize));
  if (input) all.push_back(fmt::format("data.channels={}", input->channels));
  if (const auto told = normalization_in(metadata)) {
    all.push_back("data.mean=" + list(told->mean));
    all.push_back("data.std=" + list(told->std));
  } else if (!published.mean.empty()) {
    all.push_back("data.mean=" + list(published.mean));
    all.push_back("data.std=" + list(published.std));
  } else if (published.image_size > 0) {
    all.emplace_back("data.mean=imagenet");
  }
  all.insert(all.end(), source_.settings.begin(), source_.settings.end());
  Config known = config();
  if (known.data.mean.empty())
    throw ConfigError(
        fmt::format("weights '{}': the normalization of the images is unknown; set data.mean and "
                    "data.std, such as data.mean=imagenet",
                    weights()));
  ImageShape image = image_shape(known.data);
  if (input && input->height == image.height) image = *input;
  file.match(known, image);
  if (file.classes() == 0)
    throw CheckpointError(fmt::format(
        "weights '{}': have no last layer, which tells the classes; use a complete network",
        weights()));
  all.push_back(fmt::format("model.classes={}", file.classes()));
  known = config();
  std::vector<std::string> names = class_names_in(metadata);
  if (std::ssize(names) != file.classes()) names.clear();
  if (!source_.class_names.empty()) names = names_of_file(source_.class_names, file.classes());
  inference_ = inference_json(known, image,
                              {{known.data.mean.begin(), known.data.mean.end()},
                               {known.data.std.begin(), known.data.std.end()}},
                              names)
                   .text();
}

std::unique_ptr<TrainedNetwork> trained_network(const NetworkSource& source) {
  const NetworkOrigin origin(source);
  auto trained = std::make_unique<TrainedNetwork>();
  trained->config = origin.config();
  trained->weights = origin.weights_file();
  trained->inference = !origin.is_run()            ? origin.inference()
                       : source.checkpoint.empty() ? weights_inference(trained->weights)
                                                   : CheckpointFile(trained->weights).inference();
  trained->image = image_in(*trained);
  const DeviceScope cpu("cpu:0");
  trained->network = make_network(trained->config, trained->image, trained->store);
  Pretrained weights(trained->weights);
  weights.match(trained->config, trained->image);
  weights.load(trained->store);
  return trained;
}

}  // namespace tessera
