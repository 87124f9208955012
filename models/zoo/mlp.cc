// A multilayer perceptron: x [n, ...] is flattened, then fc1, relu, fc2, relu, ... and a last
// layer without relu: [n, classes]. In training, dropout follows each relu.
#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

void make_mlp(NetworkBuilder& net, const ModelOptions& o) {
  net.apply(flatten);
  int64_t in = o.height * o.width * o.channels;
  size_t i = 1;
  for (const int64_t out : o.widths) {
    net.add<Linear>(fmt::format("fc{}", i), {.in = in, .out = out});
    net.apply(relu);
    net.dropout(fmt::format("drop{}", i++), *o.dropout);
    in = out;
  }
  net.add<Linear>(fmt::format("fc{}", i), {.in = in, .out = o.classes});
}

}  // namespace

Networks zoo::mlp() { return {{"mlp", {.dropout = 0, .widths = {256, 128}}, make_mlp}}; }

}  // namespace tessera
