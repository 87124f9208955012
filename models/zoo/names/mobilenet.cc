#include <array>
#include <initializer_list>

#include <fmt/format.h>

#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

// Stages and blocks count on there, where ours are one list; the first block has no convolution
// that widens.
NameTable timm_mobilenet_v2() {
  NameTable table{"timm",
                  "mobilenetv2_100",
                  {{"features.0.0", "conv_stem"},
                   {"features.0.1", "bn1"},
                   {"features.18.0", "conv_head"},
                   {"features.18.1", "bn2"},
                   {"classifier.1", "classifier"}}};
  const auto block = [&](int ours, int stage, int index,
                         std::initializer_list<std::array<const char*, 2>> parts) {
    for (const auto& [here, there] : parts)
      table.modules.emplace_back(fmt::format("features.{}.conv.{}", ours, here),
                                 fmt::format("blocks.{}.{}.{}", stage, index, there));
  };
  block(1, 0, 0, {{"0.0", "conv_dw"}, {"0.1", "bn1"}, {"1", "conv_pw"}, {"2", "bn2"}});
  constexpr int kBlocks[] = {1, 2, 3, 4, 3, 3, 1};
  int ours = 2;
  for (int stage = 1; stage < 7; ++stage)
    for (int i = 0; i < kBlocks[stage]; ++i, ++ours)
      block(ours, stage, i,
            {{"0.0", "conv_pw"},
             {"0.1", "bn1"},
             {"1.0", "conv_dw"},
             {"1.1", "bn2"},
             {"2", "conv_pwl"},
             {"3", "bn3"}});
  return table;
}

}  // namespace tessera
