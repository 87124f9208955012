#include "tessera/models/zoo/names/name_tables.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace tessera {

namespace {

constexpr char kTorchvision[] = "torchvision", kTimm[] = "timm";

// Of programs that have a network under its name here, with the same names within.
std::vector<NameTable> same_names(const std::string& network,
                                  std::initializer_list<const char*> programs) {
  std::vector<NameTable> tables;
  for (const char* program : programs) tables.push_back({program, network});
  return tables;
}

bool is_within(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

bool is_within_any(std::string_view name, const std::vector<std::string>& modules) {
  return std::ranges::any_of(modules, [&](const auto& module) { return is_within(name, module); });
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
  static const std::map<std::string, std::vector<NameTable>, std::less<>> all = [] {
    std::map<std::string, std::vector<NameTable>, std::less<>> known;
    for (int depth : {18, 34, 50, 101, 152}) {
      const std::string name = fmt::format("resnet{}", depth);
      known[name] = same_names(name, {kTorchvision, kTimm});
    }
    for (int depth : {11, 13, 16, 19}) {
      const std::string name = fmt::format("vgg{}_bn", depth);
      known[name] = {{kTorchvision, name}, timm_vgg(depth)};
    }
    known["alexnet"] = same_names("alexnet", {kTorchvision});
    known["densenet121"] = same_names("densenet121", {kTorchvision, kTimm});
    known["mobilenet_v2"] = {{kTorchvision, "mobilenet_v2"}, timm_mobilenet_v2()};
    // The losses beside the stem are for training alone.
    known["googlenet"] = {{kTorchvision, "googlenet", {}, {"aux1", "aux2"}}};
    for (const char* name :
         {"shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0",
          "mobilenet_v3_small", "mobilenet_v3_large", "regnet_y_400mf", "regnet_y_800mf",
          "regnet_y_1_6gf", "regnet_y_3_2gf"})
      known[name] = same_names(name, {kTorchvision});
    for (int size = 0; size < 5; ++size) {
      const std::string name = fmt::format("efficientnet_b{}", size);
      known[name] = {{kTorchvision, name}, timm_efficientnet(size)};
    }
    for (const char* name : {"seresnet18", "seresnet50", "convnext_atto", "convnext_femto",
                             "convnext_pico", "convnext_nano"})
      known[name] = same_names(name, {kTimm});
    known["convnext_tiny"] = {timm_convnext_tiny()};
    return known;
  }();
  static const std::vector<NameTable> none;
  const auto found = all.find(network);
  return found == all.end() ? none : found->second;
}

}  // namespace tessera
