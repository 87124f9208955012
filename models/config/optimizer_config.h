// The optimizers that configurations name, and the settings of each. Their keys and how they are
// made stand in optimizers.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/layers/optimizer_params.h"
#include "tessera/models/config/named.h"

namespace tessera {

enum class OptimizerKind { kSgd, kAdamW, kAdam, kRmsprop, kLion, kLamb, kLars, kMuon };

// clang-format off
constexpr const char* name_of(OptimizerKind value) {
  switch (value) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kAdamW: return "adamw";
    case OptimizerKind::kAdam: return "adam";
    case OptimizerKind::kRmsprop: return "rmsprop";
    case OptimizerKind::kLion: return "lion";
    case OptimizerKind::kLamb: return "lamb";
    case OptimizerKind::kLars: return "lars";
    case OptimizerKind::kMuon: return "muon";
  }
  return nullptr;
}
// clang-format on

// One entry of optimizer.groups: {vectors: {weight_decay: 0}} or {named: {part: fc, lr: 10}}.
struct GroupConfig {
  std::string kind = "vectors";
  std::string part = {};            // named: of the network
  double lr = 1, weight_decay = 1;  // factors
  bool operator==(const GroupConfig&) const = default;
};

struct OptimizerConfig {
  Named<OptimizerKind> name = OptimizerKind::kSgd;
  double lr = 0.1;  // the learning rate that the schedule scales; parse_config(): usual_lr()
  std::optional<double> clip_norm, clip_value;  // of gradients
  double layer_decay = 1;                       // factor of lr from a layer to the one before
  std::vector<GroupConfig> groups;
  SgdParams sgd{.momentum = 0.9};
  AdamWParams adamw{.weight_decay = 0};
  AdamWParams adam{.weight_decay = 0, .coupled = true};
  RmspropParams rmsprop{.momentum = 0.9};
  LionParams lion{.beta2 = 0.999};
  LambParams lamb{.epsilon = 1e-8, .weight_decay = 0};
  LarsParams lars;
  MuonParams muon{.momentum = 0.9, .nesterov = false, .weight_decay = 0};
};

}  // namespace tessera
