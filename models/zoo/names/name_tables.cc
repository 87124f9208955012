#include "tessera/models/zoo/names/name_tables.h"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/models/zoo/networks.h"

namespace tessera {

namespace {

bool is_within(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

bool is_within_any(std::string_view name, const std::vector<std::string>& modules) {
  return std::ranges::any_of(modules, [&](const auto& module) { return is_within(name, module); });
}

const std::vector<KerasApplication>& applications() {
  static const char kResNet[] =
      "has its strides in the first convolution of a block, not the second, and biases in its "
      "convolutions";
  static const char kPadding[] =
      "pads images only at the bottom and the right in convolutions with a stride of 2, so that "
      "all features are shifted by one pixel";
  // A network that also has another's layers comes before it.
  static const std::vector<KerasApplication> all = {
      {"DenseNet201",
       {"conv1_conv", "conv2_block1_0_bn", "conv4_block48_2_conv"},
       "",
       "has no counterpart in Tessera"},
      {"DenseNet169",
       {"conv1_conv", "conv2_block1_0_bn", "conv5_block32_2_conv"},
       "",
       "has no counterpart in Tessera"},
      {"DenseNet121",
       {"conv1_conv", "conv2_block1_0_bn", "conv4_block24_2_conv"},
       "densenet121",
       "",
       1.001e-5},
      {"ResNet", {"conv1_conv", "conv2_block1_1_conv", "conv2_block1_3_bn"}, "", kResNet},
      {"ResNetV2",
       {"conv1_conv", "conv2_block1_preact_bn"},
       "",
       "normalizes before each convolution, not after it"},
      {"VGG", {"block1_conv1", "block5_conv3"}, "", "has no batch norms"},
      {"MobileNet", {"conv_dw_1", "conv_pw_13"}, "", kPadding},
      {"MobileNetV3", {"expanded_conv_squeeze_excite_conv", "expanded_conv_project"}, "", kPadding},
      {"MobileNetV3",
       {"expanded_conv_3_squeeze_excite_conv", "expanded_conv_project"},
       "",
       kPadding},
      {"MobileNetV2", {"Conv1", "expanded_conv_project"}, "", kPadding, 0, "mobilenet_v2"},
      {"EfficientNetV2",
       {"stem_conv", "block1a_project_conv", "block6h_project_bn"},
       "",
       "has no counterpart in Tessera"},
      {"EfficientNet", {"stem_conv", "block1a_dwconv", "block7a_project_conv"}, "", kPadding},
  };
  return all;
}

}  // namespace

std::string NameTable::theirs(std::string_view ours) const {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& entry : modules)
    if (is_within(ours, entry.first) &&
        (best == nullptr || best->first.size() < entry.first.size()))
      best = &entry;
  if (best == nullptr) return std::string(ours);
  return best->second + std::string(ours.substr(best->first.size()));
}

bool NameTable::is_unused(std::string_view theirs) const { return is_within_any(theirs, unused); }

bool NameTable::is_linear(std::string_view ours) const { return is_within_any(ours, linear); }

const std::vector<NameTable>& name_tables(std::string_view network) {
  static const auto all = [] {
    std::map<std::string, std::vector<NameTable>, std::less<>> known;
    for (const Network& one : networks()) {
      std::vector<NameTable>& tables = known[one.name] = one.tables;
      for (NameTable& table : tables) {
        if (table.network.empty()) table.network = one.name;
        if (table.add_modules) table.add_modules(table);
      }
    }
    return known;
  }();
  static const std::vector<NameTable> none;
  const auto found = all.find(network);
  return found == all.end() ? none : found->second;
}

const KerasApplication* keras_application(const std::vector<std::string>& layers) {
  const std::set<std::string> there(layers.begin(), layers.end());
  for (const KerasApplication& one : applications())
    if (std::ranges::all_of(one.layers,
                            [&](const std::string& layer) { return there.count(layer) != 0; }))
      return &one;
  return nullptr;
}

const KerasApplication* misfit_of_keras(const std::string& network) {
  for (const KerasApplication& one : applications())
    if (one.fits == network) return &one;
  return nullptr;
}

}  // namespace tessera
