// Builds the network that a list of layers describes (models/config/config.h).
#include <functional>
#include <map>

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/ops/local_response_norm.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/network.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

using BuiltLayer = std::unique_ptr<Module>;

constexpr double kMaxWeights = 1e12;  // per layer

// The input or output shape of a layer for one sample: an image, or only features.
struct LayerShape {
  int64_t height = 0, width = 0;  // 0 for features only
  int64_t features = 0;           // channels of an image

  bool is_image() const { return height > 0; }
  std::string text() const {
    return is_image() ? fmt::format("[n x {} x {} x {}]", height, width, features)
                      : fmt::format("[n x {}]", features);
  }
  bool operator==(const LayerShape&) const = default;
};

// A tensor that a save keeps until its last load.
struct Saved {
  LayerShape shape;
  SourceRange range;
  int loads = 0;      // in the network
  int remaining = 0;  // in this forward pass
  Tensor tensor;
};
using SavedByName = std::map<std::string, std::shared_ptr<Saved>>;

BuiltLayer function_layer(std::string name, std::function<Tensor(const Tensor&)> function) {
  return std::make_unique<FunctionModule>(std::move(name), std::move(function));
}

// Builds layers in order and tracks the current shape.
class Builder {
 public:
  Builder(Store& store, SavedByName& saved, const LayerShape& start)
      : store_(store), saved_(saved), at_(start) {}

  const LayerShape& reached() const { return at_; }

  BuiltLayer all(const std::vector<LayerConfig>& layers, const std::string& prefix) {
    auto made = std::make_unique<Sequential>();
    for (const LayerConfig& layer : layers)
      made->add(one(layer, fmt::format("{}{}{}", prefix, layer.kind, made->modules().size())));
    return made;
  }

  // The builders of each kind of layer; they read and update the current shape.
  BuiltLayer flat(const LayerConfig&, std::string name) {
    if (at_.is_image()) at_ = {0, 0, at_.height * at_.width * at_.features};
    return function_layer(std::move(name), flatten);
  }

  BuiltLayer dropout(const LayerConfig& layer, std::string name) {
    return std::make_unique<Dropout>(std::move(name), layer.probability);
  }

  BuiltLayer conv(const LayerConfig& layer, std::string name) {
    need_image(layer);
    if (at_.features % layer.groups != 0 || layer.filters % layer.groups != 0)
      refuse(layer, "{} groups do not divide {} channels and {} filters", layer.groups,
             at_.features, layer.filters);
    const int64_t reach = layer.dilation * (layer.kernel - 1) + 1;
    const LayerShape next = windows(layer, reach, layer.stride, layer.filters);
    limit(layer, static_cast<double>(layer.filters) * static_cast<double>(at_.features) *
                     static_cast<double>(layer.kernel * layer.kernel));
    const int64_t in = std::exchange(at_, next).features;
    return make<Conv2d>(std::move(name), {.in = in,
                                          .out = layer.filters,
                                          .kernel = layer.kernel,
                                          .stride = layer.stride,
                                          .padding = layer.padding,
                                          .dilation = layer.dilation,
                                          .groups = layer.groups,
                                          .bias = layer.bias,
                                          .identity = layer.identity});
  }

  BuiltLayer whiten(const LayerConfig& layer, std::string name) {
    need_image(layer);
    if (name != "whiten0") refuse(layer, "must be first: its filters are computed from images");
    const LayerShape next =
        windows(layer, layer.kernel, 1, 2 * layer.kernel * layer.kernel * at_.features);
    const int64_t in = std::exchange(at_, next).features;
    return make<Whitening>(std::move(name), {.in = in, .kernel = layer.kernel});
  }

  BuiltLayer linear(const LayerConfig& layer, std::string name) {
    if (at_.is_image())
      refuse(layer, "needs [n x features]; add flatten or global_average_pool before linear");
    limit(layer, static_cast<double>(at_.features) * static_cast<double>(layer.units));
    const int64_t in = std::exchange(at_.features, layer.units);
    return make<Linear>(std::move(name), {.in = in, .out = layer.units, .bias = layer.bias});
  }

  BuiltLayer batch_norm(const LayerConfig& layer, std::string name) {
    need_image(layer);
    return make<BatchNorm2d>(std::move(name), {.channels = at_.features,
                                               .eps = layer.eps,
                                               .momentum = layer.momentum,
                                               .scale = layer.scale});
  }

  BuiltLayer layer_norm(const LayerConfig& layer, std::string name) {
    return make<LayerNorm>(std::move(name), {.features = at_.features, .eps = layer.eps});
  }

  BuiltLayer group_norm(const LayerConfig& layer, std::string name) {
    need_image(layer);
    check_groups(layer);
    return make<GroupNorm>(std::move(name),
                           {.channels = at_.features, .groups = layer.groups, .eps = layer.eps});
  }

  BuiltLayer pool(const LayerConfig& layer, std::string name) {
    need_image(layer);
    if (layer.padding >= layer.size) refuse(layer, "its padding must be smaller than its size");
    const int64_t stride = layer.pool_stride.value_or(layer.size);
    LayerShape next = windows(layer, layer.size, stride, at_.features);
    const Pool2dParams params{.kernel = layer.size,
                              .stride = Size2(stride),
                              .padding = layer.padding,
                              .ceil_mode = layer.ceil_mode};
    const auto more = [&](int64_t side, int64_t count) {  // the window that rounding up adds
      const int64_t begin = count * stride;
      return layer.ceil_mode && begin + layer.size < side + 2 * layer.padding + stride &&
             begin < side + layer.padding;
    };
    next.height += more(at_.height, next.height), next.width += more(at_.width, next.width);
    at_ = next;
    const bool is_max = layer.kind == "max_pool";
    return function_layer(std::move(name), [=](const Tensor& x) {
      return is_max ? max_pool2d(x, params) : average_pool2d(x, params);
    });
  }

  BuiltLayer global_pool(const LayerConfig& layer, std::string name) {
    need_image(layer);
    at_ = {0, 0, at_.features};
    return function_layer(std::move(name), global_average_pool);
  }

  BuiltLayer adaptive_pool(const LayerConfig& layer, std::string name) {
    need_image(layer);
    at_ = {layer.size, layer.size, at_.features};
    const bool is_max = layer.kind == "adaptive_max_pool";
    return function_layer(std::move(name), [=, size = layer.size](const Tensor& x) {
      return is_max ? adaptive_max_pool2d(x, size) : adaptive_average_pool2d(x, size);
    });
  }

  BuiltLayer trained_slopes(const LayerConfig& layer, std::string name) {
    return make<PRelu>(std::move(name), {.channels = at_.features, .slope = layer.first_slope});
  }

  BuiltLayer layer_scale(const LayerConfig& layer, std::string name) {
    return make<LayerScale>(std::move(name),
                            {.channels = at_.features, .init_value = layer.init_value});
  }

  BuiltLayer squeeze_excitation(const LayerConfig& layer, std::string name) {
    need_image(layer);
    limit(layer, static_cast<double>(layer.squeeze) * static_cast<double>(at_.features));
    return make<SqueezeExcitation>(std::move(name),
                                   {.channels = at_.features,
                                    .squeeze = layer.squeeze,
                                    .activation = layer.activation == "silu" ? silu : relu,
                                    .gate = layer.gate == "hard_sigmoid" ? hard_sigmoid : sigmoid});
  }

  BuiltLayer shuffle(const LayerConfig& layer, std::string name) {
    check_groups(layer);
    return function_layer(std::move(name), [groups = layer.groups](const Tensor& x) {
      return channel_shuffle(x, groups);
    });
  }

  BuiltLayer residual(const LayerConfig& layer, std::string name) {
    Builder main(store_, saved_, at_), side(store_, saved_, at_);
    const std::shared_ptr<Module> layers = main.all(layer.layers, name + ".");
    const std::shared_ptr<Module> shortcut = side.all(layer.shortcut, name + ".shortcut.");
    if (main.at_ != side.at_)
      refuse(layer, "its layers and shortcut must return equal shapes, not {} and {}",
             main.at_.text(), side.at_.text());
    at_ = main.at_;
    return function_layer(std::move(name), [=](const Tensor& x) {
      const Tensor y = (*layers)(x);
      return y + (*shortcut)(x);
    });
  }

  BuiltLayer sequence(const LayerConfig& layer, std::string name) {
    return all(layer.layers, name + ".");
  }

  BuiltLayer concatenate(const LayerConfig& layer, std::string name) {
    constexpr size_t kMaxBranches = 32;
    if (layer.layers.empty() || layer.layers.size() > kMaxBranches)
      refuse(layer, "needs 1 to {} layers, each a branch", kMaxBranches);
    std::vector<std::shared_ptr<Module>> branches;
    LayerShape sum;
    for (const LayerConfig& one : layer.layers) {
      Builder branch(store_, saved_, at_);
      branches.push_back(branch.one(one, fmt::format("{}.{}{}", name, one.kind, branches.size())));
      const LayerShape& next = branch.at_;
      if (branches.size() == 1) sum = {next.height, next.width, 0};
      if (next.height != sum.height || next.width != sum.width)
        refuse(layer, "its branches must return images of one size, not {} and {}", sum.text(),
               next.text());
      sum.features += next.features;
    }
    at_ = sum;
    return function_layer(std::move(name), [branches](const Tensor& x) {
      Tensors results;
      for (const auto& branch : branches) results.push_back((*branch)(x));
      return concat(results);
    });
  }

  BuiltLayer save(const LayerConfig& layer, std::string name) {
    auto [place, is_new] = saved_.emplace(layer.name, std::make_shared<Saved>());
    if (!is_new) refuse(layer, "'{}' is saved twice; use another name", layer.name);
    const std::shared_ptr<Saved> saved = place->second;
    saved->shape = at_, saved->range = layer.range;
    return function_layer(std::move(name), [saved](const Tensor& x) {
      saved->tensor = x, saved->remaining = saved->loads;
      return x;
    });
  }

  BuiltLayer load(const LayerConfig& layer, std::string name) {
    const auto found = saved_.find(layer.name);
    if (found == saved_.end())
      refuse(layer, "no earlier layer saves '{}'; add {{save: {{name: {}}}}} before it", layer.name,
             layer.name);
    const std::shared_ptr<Saved> saved = found->second;
    ++saved->loads;
    at_ = saved->shape;
    return function_layer(std::move(name), [saved](const Tensor&) {
      const Tensor loaded = saved->tensor;
      if (--saved->remaining == 0) saved->tensor = Tensor();
      return loaded;
    });
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(const LayerConfig& layer, fmt::format_string<Args...> text,
                           Args&&... args) const {
    throw LayerError(layer.range,
                     fmt::format("{}: {}; the shape so far is {}", layer.kind,
                                 fmt::format(text, std::forward<Args>(args)...), at_.text()));
  }

  void need_image(const LayerConfig& layer) const {
    if (!at_.is_image()) refuse(layer, "needs images [n x height x width x channels]");
  }

  void check_groups(const LayerConfig& layer) const {
    if (at_.features % layer.groups != 0)
      refuse(layer, "{} groups do not divide {} channels", layer.groups, at_.features);
  }

  template <class M>
  BuiltLayer make(std::string name, const typename M::Settings& settings) {
    return std::make_unique<M>(store_, std::move(name), settings);
  }

  // Returns the shape with a pixel for each window of `reach` pixels a side.
  LayerShape windows(const LayerConfig& layer, int64_t reach, int64_t stride,
                     int64_t features) const {
    return {count(layer, at_.height, reach, stride), count(layer, at_.width, reach, stride),
            features};
  }
  int64_t count(const LayerConfig& layer, int64_t side, int64_t reach, int64_t stride) const {
    const int64_t padded = side + 2 * layer.padding;
    if (reach > padded)
      refuse(layer, "its window has {} pixels, but its padded input only {}", reach, padded);
    return (padded - reach) / stride + 1;
  }

  // Throws LayerError for sizes that would overflow before an allocation fails.
  void limit(const LayerConfig& layer, double weights) const {
    if (weights > kMaxWeights) refuse(layer, "would have {:.3g} weights", weights);
  }

  BuiltLayer one(const LayerConfig& layer, std::string name);

  Store& store_;
  SavedByName& saved_;
  LayerShape at_;
};

// A kind of layer: its options and its builder.
struct LayerKind {
  ItemKind item;
  std::function<BuiltLayer(Builder&, const LayerConfig&, std::string)> make;
};

auto plain(Tensor (*function)(const Tensor&)) {
  return [=](Builder&, const LayerConfig&, std::string name) -> BuiltLayer {
    return function_layer(std::move(name), function);
  };
}

// Builds a layer from a function of the input and of the layer's settings.
template <class Function>
auto set_by_layer(Function function) {
  return [=](Builder&, const LayerConfig& layer, std::string name) -> BuiltLayer {
    return function_layer(std::move(name), [=](const Tensor& x) { return function(x, layer); });
  };
}

KeyRule count_rule() { return at_least(1, 1 << 24); }
KeyRule padding_rule() { return at_least(0, 65536); }

// clang-format off
std::vector<LayerKind> kinds_of_weights_and_activations(LayerConfig& l) {
  const KeyRule pixels = at_least(1, 65536);
  const ConfigKey eps = {"eps", &l.eps, at_least(kMinFloat, kMaxFloat), "added to the variance"};
  const ConfigKey bias = {"bias", &l.bias, any(), "adds a bias"};
  return {
    {{"conv", "convolution of images", {
      {"filters", &l.filters, required(count_rule()), "output channels"},
      {"kernel", &l.kernel, required(pixels), "pixels per side"},
      {"stride", &l.stride, pixels, "pixels between windows"},
      {"padding", &l.padding, padding_rule(), "pixels of zero padding on each side"},
      {"dilation", &l.dilation, pixels, "pixels between filter taps"},
      {"groups", &l.groups, count_rule(), "number of groups of channels that are convolved separately"},
      bias,
      {"identity", &l.identity, any(), "filters start as the identity: each passes one channel through"}}},
      &Builder::conv},
    {{"whiten", "whitening: convolution that decorrelates the pixels of a patch; its fixed filters are computed from the training images; must be first", {
      {"kernel", &l.kernel, required(at_least(1, 16)), "pixels per side"}}}, &Builder::whiten},
    {{"linear", "fully connected layer", {
      {"units", &l.units, required(count_rule()), "output features"}, bias}}, &Builder::linear},
    {{"batch_norm", "normalizes each channel over the batch", {
      eps, {"momentum", &l.momentum, at_least(0, 1), "share of the batch in the running statistics"},
      {"scale", &l.scale, any(), "trains the scale factors; false: they stay 1"}}},
      &Builder::batch_norm},
    {{"layer_norm", "normalizes the features of each sample or pixel", {eps}},
      &Builder::layer_norm},
    {{"group_norm", "normalizes groups of channels of each image", {
      {"groups", &l.groups, required(count_rule()), "number of groups of channels"}, eps}}, &Builder::group_norm},
    {{"squeeze_excitation", "scales every channel by a gate computed from the channel means", {
      {"squeeze", &l.squeeze, required(count_rule()), "channels of the hidden layer"},
      {"activation", &l.activation, one_of({"relu", "silu"}), "activation of the hidden layer"},
      {"gate", &l.gate, one_of({"sigmoid", "hard_sigmoid"}), "activation that computes the gate"}}},
      &Builder::squeeze_excitation},
    {{"layer_scale", "scales every channel by a trained factor", {
      {"init_value", &l.init_value, any(), "initial value of the factors"}}}, &Builder::layer_scale},
    {{"relu", "max(x, 0)", {}}, plain(relu)},
    {{"relu6", "min(max(x, 0), 6)", {}}, plain(relu6)},
    {{"gelu", "x Phi(x)", {}}, plain(gelu)},
    {{"gelu_tanh", "gelu with Phi(x) computed by tanh", {}}, plain(gelu_tanh)},
    {{"silu", "x sigmoid(x)", {}}, plain(silu)},
    {{"sigmoid", "1 / (1 + exp(-x))", {}}, plain(sigmoid)},
    {{"tanh", "hyperbolic tangent", {}}, plain(tanh)},
    {{"hard_sigmoid", "relu6(x + 3) / 6", {}}, plain(hard_sigmoid)},
    {{"hard_swish", "x hard_sigmoid(x)", {}}, plain(hard_swish)},
    {{"leaky_relu", "x if x > 0, else slope x", {
      {"slope", &l.slope, any(), "slope for x < 0"}}},
      set_by_layer([](const Tensor& x, const LayerConfig& s) { return leaky_relu(x, s.slope); })},
    {{"prelu", "leaky_relu with trained slopes, one per channel", {
      {"slope", &l.first_slope, any(), "initial value of the slopes"}}}, &Builder::trained_slopes},
    {{"elu", "x if x > 0, else alpha (exp(x) - 1)", {
      {"alpha", &l.alpha, any(), "the factor"}}},
      set_by_layer([](const Tensor& x, const LayerConfig& s) { return elu(x, s.alpha); })},
    {{"mish", "x tanh(log(1 + exp(x)))", {}}, plain(mish)},
    {{"softmax", "exp(x) / sum(exp(x)) over the features of each sample or pixel", {}}, plain(softmax)},
  };
}

std::vector<LayerKind> kinds_of_pools_and_structure(LayerConfig& l) {
  const std::vector<ConfigKey> pool = {
    {"size", &l.size, required(at_least(1, 256)), "pixels per side of a window"},
    {"stride", &l.pool_stride, at_least(1, 65536), "pixels between windows; none: the size"},
    {"padding", &l.padding, padding_rule(), "pixels on each side"},
    {"ceil_mode", &l.ceil_mode, any(), "adds a window for the remaining pixels, as PyTorch's ceil_mode"}};
  return {
    {{"max_pool", "maximum of each window", pool}, &Builder::pool},
    {{"average_pool", "mean of each window", pool}, &Builder::pool},
    {{"global_average_pool", "mean of each channel: images to features", {}},
      &Builder::global_pool},
    {{"adaptive_max_pool", "maximum of each window, for a given number of windows", {
      {"size", &l.size, required(at_least(1, 256)), "windows per side"}}}, &Builder::adaptive_pool},
    {{"adaptive_average_pool", "mean of each window, for a given number of windows", {
      {"size", &l.size, required(at_least(1, 256)), "windows per side"}}}, &Builder::adaptive_pool},
    {{"flatten", "images to features", {}}, &Builder::flat},
    {{"scale", "multiplies by a number", {
      {"factor", &l.factor, required(any()), "the number"}}},
      set_by_layer([](const Tensor& x, const LayerConfig& s) { return x * s.factor; })},
    {{"local_response_norm", "divides by a power of the sum of squares of neighbouring channels", {
      {"size", &l.norm_size, count_rule(), "number of channels in the sum"},
      {"alpha", &l.norm_alpha, any(), "factor of the mean square"},
      {"beta", &l.norm_beta, any(), "the power"},
      {"k", &l.norm_k, any(), "added before the power"}}},
      set_by_layer([](const Tensor& x, const LayerConfig& s) {
        return local_response_norm(x, {s.norm_size, s.norm_alpha, s.norm_beta, s.norm_k}); })},
    {{"channel_shuffle", "interleaves the channels of several groups", {
      {"groups", &l.groups, required(count_rule()), "number of groups of channels"}}}, &Builder::shuffle},
    {{"dropout", "sets elements to zero at random in training", {
      {"probability", &l.probability, from_below(0, 1), "probability of a zero"}}}, &Builder::dropout},
    {{"stochastic_depth", "sets whole samples to zero at random in training; put it at the end of a residual", {
      {"probability", &l.probability, from_below(0, 1), "probability of a zero"}}},
      set_by_layer([](const Tensor& x, const LayerConfig& s) { return stochastic_depth(x, s.probability); })},
    {{"residual", "adds the output of its layers to its input; a list directly after the name sets `layers`", {
      {"layers", &l.layers, required(any()), "the layers"},
      {"shortcut", &l.shortcut, any(), "layers that convert the input to the same shape"}}},
      &Builder::residual},
    {{"sequence", "its layers in order, as one layer of `concat`; a list directly after the name sets `layers`", {
      {"layers", &l.layers, required(any()), "the layers; [] is the identity"}}}, &Builder::sequence},
    {{"concat", "joins the channels that its layers make of its input; a list directly after the name sets `layers`", {
      {"layers", &l.layers, required(any()), "the branches; each layer reads the input"}}}, &Builder::concatenate},
    {{"save", "names its input for later layers, and returns it", {
      {"name", &l.name, required(any()), "the name"}}}, &Builder::save},
    {{"load", "returns what `save` named: in `concat`, or as `shortcut` of a residual, a skip connection", {
      {"name", &l.name, required(any()), "the name"}}}, &Builder::load},
  };
}
// clang-format on

std::vector<LayerKind> layer_kinds(LayerConfig& l) {
  std::vector<LayerKind> all;
  for (const auto of : {kinds_of_weights_and_activations, kinds_of_pools_and_structure})
    for (LayerKind& kind : of(l)) all.push_back(std::move(kind));
  return all;
}

BuiltLayer Builder::one(const LayerConfig& layer, std::string name) {
  LayerConfig copy;
  for (const LayerKind& kind : layer_kinds(copy))
    if (kind.item.name == layer.kind) return kind.make(*this, layer, std::move(name));
  refuse(layer, "is not supported");
}

}  // namespace

std::vector<ItemKind> item_kinds(LayerConfig& layer) {
  std::vector<ItemKind> items;
  for (LayerKind& kind : layer_kinds(layer)) items.push_back(std::move(kind.item));
  return items;
}

LayerError::LayerError(const SourceRange& range, const std::string& problem)
    : ConfigErrors(range.source == nullptr ? "model.layers: " + problem
                                           : range.error("model.layers: " + problem)),
      range(range),
      text("model.layers: " + problem) {}

std::unique_ptr<Module> make_layered(const std::vector<LayerConfig>& layers,
                                     const ImageShape& image, int64_t classes, Store& store) {
  SavedByName saved;
  Builder builder(store, saved, {image.height, image.width, image.channels});
  BuiltLayer made = builder.all(layers, "");
  for (const auto& [name, one] : saved)
    if (one->loads == 0)
      throw LayerError(one->range, fmt::format("save: no later layer loads '{}'; remove it", name));
  if (builder.reached() != LayerShape{0, 0, classes})
    throw LayerError(layers.empty() ? SourceRange{} : layers.back().range,
                     fmt::format("the last layer must return [n x {}], one value for each of "
                                 "model.classes, but returns {}",
                                 classes, builder.reached().text()));
  return made;
}

}  // namespace tessera
