#include <fmt/format.h>

#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

// The names are the same. Only the sizes up to nano have convolutions between their norm and scale
// there as here.
NameTable timm_convnext_tiny() {
  NameTable table{"timm", "convnext_tiny"};
  constexpr int kBlocks[] = {3, 3, 9, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < kBlocks[stage]; ++i)
      table.linear.push_back(fmt::format("stages.{}.blocks.{}.mlp", stage, i));
  return table;
}

}  // namespace tessera
