#include "tessera/models/zoo/zoo.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/zoo/alexnet.h"
#include "tessera/models/zoo/cnn.h"
#include "tessera/models/zoo/convnext.h"
#include "tessera/models/zoo/densenet.h"
#include "tessera/models/zoo/efficientnet.h"
#include "tessera/models/zoo/googlenet.h"
#include "tessera/models/zoo/lenet.h"
#include "tessera/models/zoo/mlp.h"
#include "tessera/models/zoo/mobilenet.h"
#include "tessera/models/zoo/mobilenet_v3.h"
#include "tessera/models/zoo/regnet.h"
#include "tessera/models/zoo/resnet.h"
#include "tessera/models/zoo/shufflenet.h"
#include "tessera/models/zoo/vgg.h"
#include "tessera/models/zoo/wide_resnet.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

using Made = std::unique_ptr<Module>;

Made make_mlp(const ModelOptions& o, Store& store) {
  Mlp::Settings s{.in = o.height * o.width * o.channels,
                  .classes = o.classes,
                  .dropout = o.dropout.value_or(0)};
  if (!o.widths.empty()) s.hidden = o.widths;
  return std::make_unique<Mlp>(store, s);
}

Made make_lenet5(const ModelOptions& o, Store& store) {
  return std::make_unique<LeNet5>(
      store,
      LeNet5::Settings{
          .channels = o.channels, .height = o.height, .width = o.width, .classes = o.classes});
}

Made make_cnn_bn(const ModelOptions& o, Store& store) {
  CnnBn::Settings s{.channels = o.channels,
                    .height = o.height,
                    .width = o.width,
                    .dropout = o.dropout.value_or(0),
                    .classes = o.classes};
  if (!o.widths.empty()) s.widths = o.widths;
  return std::make_unique<CnnBn>(store, s);
}

ResNet::Settings seresnet(int depth) {
  ResNet::Settings s = ResNet::imagenet(depth);
  s.squeezes = true;
  return s;
}

ResNet::Settings resnet18_cifar() {
  ResNet::Settings s = ResNet::imagenet(18);
  s.stem = ResNet::Stem::kSmall;
  return s;
}

// What most networks have in common.
template <class Model>
Made make_from(typename Model::Settings s, const ModelOptions& o, Store& store) {
  s.channels = o.channels;
  s.classes = o.classes;
  if constexpr (requires { s.dropout; }) s.dropout = o.dropout.value_or(s.dropout);
  if constexpr (requires { s.stochastic_depth; })
    s.stochastic_depth = o.stochastic_depth.value_or(s.stochastic_depth);
  if constexpr (requires { s.height; }) s.height = o.height, s.width = o.width;
  return std::make_unique<Model>(store, s);
}

Made make_wide_resnet(const ModelOptions& o, Store& store) {
  WideResNet::Settings s{.channels = o.channels, .classes = o.classes};
  s.depth = o.depth.value_or(s.depth);
  s.width = o.widen.value_or(s.width);
  s.dropout = o.dropout.value_or(s.dropout);
  return std::make_unique<WideResNet>(store, s);
}

struct Entry {
  std::string name;
  std::function<Made(const ModelOptions&, Store&)> make;
  std::vector<std::string> options = {"classes"};

  bool has(std::string_view option) const {
    return std::find(options.begin(), options.end(), option) != options.end();
  }
};

template <class Model>
Entry entry(std::string name, typename Model::Settings settings) {
  Entry made{std::move(name), [settings](const ModelOptions& o, Store& store) {
               return make_from<Model>(settings, o, store);
             }};
  if constexpr (requires { settings.dropout; }) made.options.push_back("dropout");
  if constexpr (requires { settings.stochastic_depth; }) made.options.push_back("stochastic_depth");
  return made;
}

void add_of_the_last_years(std::vector<Entry>& list) {
  list.push_back(entry<GoogLeNet>("googlenet", {}));
  for (int depth : {18, 50})
    list.push_back(entry<ResNet>(fmt::format("seresnet{}", depth), seresnet(depth)));
  list.push_back(entry<ShuffleNetV2>("shufflenet_v2_x0_5", {.widths = {48, 96, 192}}));
  list.push_back(entry<ShuffleNetV2>("shufflenet_v2_x1_0", {}));
  list.push_back(entry<ShuffleNetV2>("shufflenet_v2_x1_5", {.widths = {176, 352, 704}}));
  list.push_back(
      entry<ShuffleNetV2>("shufflenet_v2_x2_0", {.widths = {244, 488, 976}, .last = 2048}));
  list.push_back(entry<MobileNetV3>("mobilenet_v3_small", {.large = false}));
  list.push_back(entry<MobileNetV3>("mobilenet_v3_large", {.large = true}));
  for (int size = 0; size <= 4; ++size)
    list.push_back(
        entry<EfficientNet>(fmt::format("efficientnet_b{}", size), EfficientNet::of_size(size)));
  for (const char* size : {"400mf", "800mf", "1_6gf", "3_2gf"})
    list.push_back(entry<RegNetY>(fmt::format("regnet_y_{}", size), RegNetY::of_size(size)));
  for (const char* size : {"atto", "femto", "pico", "nano", "tiny"})
    list.push_back(entry<ConvNext>(fmt::format("convnext_{}", size), ConvNext::of_size(size)));
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list{{"mlp", make_mlp, {"classes", "dropout", "widths"}},
                            {"lenet5", make_lenet5},
                            {"cnn_bn", make_cnn_bn, {"classes", "dropout", "widths"}}};
    for (int depth : {20, 32, 44, 56, 110}) {
      list.push_back(entry<ResNet>(fmt::format("resnet{}", depth), ResNet::cifar(depth)));
    }
    for (int depth : {18, 34, 50, 101, 152}) {
      list.push_back(entry<ResNet>(fmt::format("resnet{}", depth), ResNet::imagenet(depth)));
    }
    list.push_back(entry<ResNet>("resnet18_cifar", resnet18_cifar()));
    list.push_back({"wide_resnet", make_wide_resnet, {"classes", "depth", "widen", "dropout"}});
    list.push_back(entry<AlexNet>("alexnet", {}));
    for (int depth : {11, 13, 16, 19})
      list.push_back(entry<Vgg>(fmt::format("vgg{}_bn", depth), Vgg::of_depth(depth)));
    list.push_back(entry<DenseNet>("densenet121", {}));
    list.push_back({"densenet_bc",
                    [](const ModelOptions& o, Store& store) {
                      return make_from<DenseNet>(
                          DenseNet::cifar(o.depth.value_or(100), o.growth.value_or(12)), o, store);
                    },
                    {"classes", "depth", "growth"}});
    list.push_back(entry<MobileNetV2>("mobilenet_v2", {}));
    add_of_the_last_years(list);
    return list;
  }();
  return all;
}

void check_options(const Entry& entry, const ModelOptions& o) {
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(fmt::format("model {}: {}", entry.name, what));
  };
  if (o.height < 1 || o.width < 1 || o.channels < 1) {
    refuse(fmt::format("images must have at least one pixel and channel, are {}x{}x{}", o.height,
                       o.width, o.channels));
  }
  if (o.classes < 1) refuse(fmt::format("classes must be at least 1, is {}", o.classes));
  if (o.dropout && !(*o.dropout >= 0 && *o.dropout < 1))
    refuse(fmt::format("dropout must be in [0, 1), is {}", *o.dropout));
  if (o.stochastic_depth && !(*o.stochastic_depth >= 0 && *o.stochastic_depth < 1))
    refuse(fmt::format("stochastic_depth must be in [0, 1), is {}", *o.stochastic_depth));
  const std::pair<const char*, bool> given[] = {
      {"dropout", o.dropout.has_value()}, {"widths", !o.widths.empty()},
      {"depth", o.depth.has_value()},     {"widen", o.widen.has_value()},
      {"growth", o.growth.has_value()},   {"stochastic_depth", o.stochastic_depth.has_value()}};
  for (const auto& [option, is_given] : given)
    if (is_given && !entry.has(option))
      refuse(fmt::format("has no {} to choose (its options: {})", option,
                         fmt::join(entry.options, ", ")));
}

}  // namespace

std::unique_ptr<Module> make_model(std::string_view name, const ModelOptions& options,
                                   Store& store) {
  for (const Entry& entry : entries()) {
    if (entry.name != name) continue;
    check_options(entry, options);
    return entry.make(options, store);
  }
  throw ConfigError(
      fmt::format("model: there is no '{}'; known are {}", name, fmt::join(model_names(), ", ")));
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Entry& entry : entries()) list.push_back(entry.name);
    return list;
  }();
  return names;
}

const std::vector<std::string>& model_options(std::string_view name) {
  static const std::vector<std::string> kNone;
  for (const Entry& entry : entries())
    if (entry.name == name) return entry.options;
  return kNone;
}

}  // namespace tessera
