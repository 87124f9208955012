#include "tessera/models/zoo/convnext.h"

#include <fmt/format.h>

#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

// The names are the same. Only the sizes up to nano have convolutions between their norm and scale
// there as here.
NameTable timm_convnext_tiny() {
  NameTable table{"timm", "convnext_tiny"};
  const std::vector<int64_t> blocks = ConvNext::of_size("tiny").blocks;
  for (size_t stage = 0; stage < blocks.size(); ++stage)
    for (int64_t i = 0; i < blocks[stage]; ++i)
      table.linear.push_back(fmt::format("stages.{}.blocks.{}.mlp", stage, i));
  return table;
}

}  // namespace tessera
