#include <cmath>

#include <fmt/format.h>

#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

// Blocks of torchvision are lists; timm's parts have names of their own, and the first stage, whose
// blocks do not widen, has other ones.
NameTable timm_efficientnet(int size) {
  constexpr double kDepth[] = {1, 1.1, 1.2, 1.4, 1.8};
  constexpr int kBlocks[] = {1, 2, 2, 3, 3, 4, 1};
  NameTable table{"timm",
                  fmt::format("efficientnet_b{}", size),
                  {{"features.0.0", "conv_stem"},
                   {"features.0.1", "bn1"},
                   {"features.8.0", "conv_head"},
                   {"features.8.1", "bn2"},
                   {"classifier.1", "classifier"}}};
  for (int stage = 0; stage < 7; ++stage)
    for (int i = 0; i < std::ceil(kBlocks[stage] * kDepth[size]); ++i) {
      const auto part = [&](const std::string& ours, const char* theirs) {
        table.modules.emplace_back(fmt::format("features.{}.{}.block.{}", stage + 1, i, ours),
                                   fmt::format("blocks.{}.{}.{}", stage, i, theirs));
      };
      const bool widens = stage > 0;
      int at = 0;
      const auto unit = [&](const char* conv, const char* norm) {
        part(fmt::format("{}.0", at), conv);
        part(fmt::format("{}.1", at++), norm);
      };
      if (widens) unit("conv_pw", "bn1");
      unit("conv_dw", widens ? "bn2" : "bn1");
      part(fmt::format("{}.fc1", at), "se.conv_reduce");
      part(fmt::format("{}.fc2", at++), "se.conv_expand");
      unit(widens ? "conv_pwl" : "conv_pw", widens ? "bn3" : "bn2");
    }
  return table;
}

}  // namespace tessera
