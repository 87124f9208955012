// Network: an entry of the zoo, as the file of its family gives it.
//
// A family of networks is one file of this folder with a function zoo::NAME(), and a word in
// TESSERA_ZOO. Whatever else asks about networks (names, options, help texts, files of other
// programs, profiles of machines) reads the entries.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/models/zoo/zoo.h"

namespace tessera {

class NetworkBuilder;  // parts.h

// A size at which a profile of a machine times a network.
struct TimedAt {
  int image_size;  // pixels a side
  int64_t batch;
};

struct Network {
  std::string name;
  // The network's own values of the options that it has. An option that is not set here cannot be
  // chosen.
  ModelOptions own;
  // Adds the layers. Is given every option of `own`: as it was chosen, or else that of `own`.
  std::function<void(NetworkBuilder& net, const ModelOptions& options)> make;
  // The programs that have it, the one that is written first; under its name unless told.
  std::vector<NameTable> tables = {};
  std::vector<TimedAt> timed = {};
  std::string family = {};  // set by networks()
};
using Networks = std::vector<Network>;

// The families, in the order of model_names().
// clang-format off
#define TESSERA_ZOO(FAMILY) \
  FAMILY(mlp) FAMILY(lenet5) FAMILY(cnn_bn) FAMILY(resnet) FAMILY(wide_resnet) \
  FAMILY(alexnet) FAMILY(vgg) FAMILY(densenet) FAMILY(densenet_bc) FAMILY(mobilenet_v2) \
  FAMILY(googlenet) FAMILY(seresnet) FAMILY(shufflenet_v2) FAMILY(mobilenet_v3) \
  FAMILY(efficientnet) FAMILY(regnet_y) FAMILY(convnext)
// clang-format on

#define TESSERA_DECLARE_FAMILY(name) Networks name();
namespace zoo {
TESSERA_ZOO(TESSERA_DECLARE_FAMILY)
}
#undef TESSERA_DECLARE_FAMILY

// Every network of every family.
const Networks& networks();

}  // namespace tessera
