#include <fmt/format.h>

#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

// The first two linear layers are convolutions there, over all pixels and over one.
NameTable timm_vgg(int depth) {
  return {"timm",
          fmt::format("vgg{}_bn", depth),
          {{"classifier.0", "pre_logits.fc1"},
           {"classifier.3", "pre_logits.fc2"},
           {"classifier.6", "head.fc"}}};
}

}  // namespace tessera
