// The one description of what lists of steps may hold, like config_keys.cc for keys.
#include <algorithm>

#include "tessera/models/config_keys.h"

namespace tessera {

bool StepKind::may_be_bare() const {
  return !takes_value() && std::none_of(options.begin(), options.end(),
                                        [](const ConfigKey& key) { return key.rule.required; });
}

// clang-format off
std::vector<StepKind> step_kinds(AugmentConfig& a) {
  return {
    {"crop", "cuts the image's size out at a random place", {
      {"padding", &a.padding, required(at_least(0, 4096)), "pixels put on each side before"},
      {"border", &a.border, one_of({"zero", "reflect"}), "what they are: black, or mirrored"}}},
    {"flip", "mirrors every second image", {
      {"", &a.flip, one_of({"horizontal"}), "left and right"}}},
  };
}
// clang-format on

}  // namespace tessera
