// The optimizers that configurations name, and the settings of each. Their keys and how they are
// made stand in optimizers.cc.
#pragma once

#include "tessera/layers/optimizer_params.h"
#include "tessera/models/config/named.h"

namespace tessera {

enum class OptimizerKind { kSgd, kAdamW };

// clang-format off
constexpr const char* name_of(OptimizerKind value) {
  switch (value) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kAdamW: return "adamw";
  }
  return nullptr;
}
// clang-format on

struct OptimizerConfig {
  Named<OptimizerKind> name = OptimizerKind::kSgd;
  double lr = 0.1;  // the learning rate that the schedule scales
  SgdParams sgd{.momentum = 0.9};
  AdamWParams adamw{.weight_decay = 0};
};

}  // namespace tessera
