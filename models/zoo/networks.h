// Network: an entry of the zoo, defined in the file of its family.
//
// A family of networks is one file of this folder with a function zoo::NAME(), and a word in
// TESSERA_ZOO. Names, options, help texts, files of other programs and machine profiles are all
// made from the entries.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/models/zoo/zoo.h"

namespace tessera {

class NetworkBuilder;  // parts.h

// A size at which a machine profile times a network.
struct TimedAt {
  int image_size;  // pixels a side
  int64_t batch;
};

struct Network {
  std::string name;
  // The network's default values of its options. An option that is not set here cannot be chosen.
  ModelOptions own;
  // Adds the layers. `options` has every option of `own`: the chosen value, else that of `own`.
  std::function<void(NetworkBuilder& net, const ModelOptions& options)> make;
  // The programs that have it, first the one used for writing; under its own name unless given.
  std::vector<NameTable> tables = {};
  std::vector<TimedAt> timed = {};
  PublishedInput input = {224, {}, {}};  // read only if there are tables
  std::string family = {};               // set by networks()
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

// Returns every network of every family.
const Networks& networks();

}  // namespace tessera
