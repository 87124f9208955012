#include "tessera/models/config/network.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/capture.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/zoo/parts.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr double kMaxBytes = 0x1p47;  // address space of a process
constexpr double kTiB = 0x1p40;

// Used if the images are unknown: large enough for every network.
constexpr ImageShape kAnyImage{256, 256, 3};

NetworkProblem too_small(const std::string& what) {
  return {{"data.image_size", "model.name", "data.name", "model.layers"}, what};
}

NetworkProblem too_large(const std::string& what) {
  return {{"model.widths", "model.widen", "model.growth", "model.depth", "model.layers",
           "data.image_size", "model.classes", "model.name"},
          what};
}

std::string too_many_bytes(double bytes) {
  return fmt::format("{:.3g} TiB, more than the {:.0f} TiB that a process can address",
                     bytes / kTiB, kMaxBytes / kTiB);
}

// Checks the shapes of one image, so that no size overflows; a batch is a multiple of one image.
std::optional<NetworkProblem> follow(const Module& network, const Config& config,
                                     const ImageShape& image) {
  const TrainingScope evaluation(false);
  const NoGradScope no_grad;
  Graph graph;
  try {
    const Shape shape{1, image.height, image.width, image.channels};
    graph = capture([&](const Tensors& x) { return Tensors{network(x[0])}; },
                    {{DType::f32, shape, {}}});
  } catch (const Error& error) {
    return too_small(fmt::format("{} does not support images [{}x{}x{}]: {}", config.model.name,
                                 image.height, image.width, image.channels, error.what()));
  }
  double most = 0;
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.outputs)
      most = std::max(most, static_cast<double>(graph.values[id].spec.bytes()));
  most *= static_cast<double>(config.data.batch);
  if (most <= kMaxBytes) return {};
  NetworkProblem problem =
      too_large(fmt::format("with batches of {} images the network's largest tensor has {}",
                            config.data.batch, too_many_bytes(most)));
  problem.keys.insert(problem.keys.begin(), "data.batch");
  return problem;
}

// Moves x by `by` pixels towards the end of the axis, with reflection padding.
Tensor moved(const Tensor& x, int axis, int64_t by) {
  const int64_t size = x.shape()[axis], count = std::abs(by);
  Tensors parts;
  if (by < 0) parts.push_back(slice(x, axis, count, size));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = by > 0 ? count - i : size - 2 - i;
    parts.push_back(slice(x, axis, from, from + 1));
  }
  if (by > 0) parts.push_back(slice(x, axis, 0, size - count));
  return concat(parts, axis);
}

}  // namespace

std::unique_ptr<Module> make_network(const Config& config, const ImageShape& image, Store& store) {
  const ModelConfig model = with_classes(config).model;
  if (!model.layers.empty()) return make_layered(model.layers, image, model.classes, store);
  return make_model(model.name,
                    {.height = image.height,
                     .width = image.width,
                     .channels = image.channels,
                     .classes = model.classes,
                     .dropout = model.dropout,
                     .widths = model.widths,
                     .depth = model.depth,
                     .widen = model.widen,
                     .growth = model.growth,
                     .stochastic_depth = model.stochastic_depth},
                    store);
}

Tensor network_logits(const Config& config, const Module& network,
                      const Normalization& normalization, const Tensor& images) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};  // in the order of Precision
  const auto precision = static_cast<size_t>(static_cast<Precision>(config.precision));
  const Tensor x = image_normalize(images, {{normalization.mean.begin(), normalization.mean.end()},
                                            {normalization.std.begin(), normalization.std.end()},
                                            kTypes[precision]});
  return cast(network(x), DType::f32);
}

Tensor evaluated_logits(const Config& config, const Module& network,
                        const Normalization& normalization, const Tensor& images) {
  Tensors views{images};
  if (config.eval.flip) views.push_back(flip_left_right(images));
  if (const int64_t shift = config.eval.shift; shift > 0) {
    const int64_t height = images.shape()[1], width = images.shape()[2];
    if (shift >= std::min(height, width))
      throw ConfigError(fmt::format("eval.shift: {} pixels are too many for images of {}x{}", shift,
                                    width, height));
    for (size_t i = 0, unmoved = views.size(); i < unmoved; ++i)
      for (const int64_t by : {-shift, shift})
        views.push_back(moved(moved(views[i], 1, by), 2, by));
  }
  Tensor sum = network_logits(config, network, normalization, views[0]);
  for (size_t i = 1; i < views.size(); ++i)
    sum = sum + network_logits(config, network, normalization, views[i]);
  return views.size() == 1 ? sum : sum * (1.0 / static_cast<double>(views.size()));
}

std::optional<NetworkProblem> find_network_problem(const Config& config,
                                                   const std::optional<ImageShape>& image) {
  const bool is_layered = !config.model.layers.empty();
  if (is_layered && !image) return {};  // nearly all checks depend on the images
  const DeviceScope cpu("cpu:0");
  Store store;
  try {
    const std::unique_ptr<Module> network = make_network(config, image.value_or(kAnyImage), store);
    if (const auto unknown = find_unknown_part(config, store.parameters()))
      return NetworkProblem{{unknown->key}, unknown->text};
    const auto bytes = static_cast<double>(store.bytes());
    if (image && bytes > kMaxBytes)
      return too_large(fmt::format("the network's weights have {}", too_many_bytes(bytes)));
    return image ? follow(*network, config, *image) : std::nullopt;
  } catch (const LayerError& error) {
    return NetworkProblem{{"model.layers"}, error.text, error.range};
  } catch (const OptionError& error) {
    for (const char* key : {"model.depth", "model.widths"})
      if (key == "model." + error.option())
        return NetworkProblem{{key, "model.name"}, error.what()};
    return NetworkProblem{{"model.name"}, error.what()};
  } catch (const ShapeError& error) {  // from make_network(): the size of a shape overflows
    return image ? std::optional<NetworkProblem>(
                       too_large(fmt::format("the network is too large: {}", error.what())))
                 : std::nullopt;
  } catch (const Error& error) {
    return image ? std::optional<NetworkProblem>(too_small(error.what())) : std::nullopt;
  }
}

}  // namespace tessera
