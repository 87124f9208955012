#include "tessera/models/zoo/mlp.h"

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/activation.h"

namespace tessera {

Mlp::Mlp(Store& store, const Settings& s) : Module("") {
  int64_t in = s.in;
  for (size_t i = 0; i <= s.hidden.size(); ++i) {
    const int64_t out = i < s.hidden.size() ? s.hidden[i] : s.classes;
    layers_.push_back(std::make_unique<Linear>(store, fmt::format("fc{}", i + 1),
                                               Linear::Settings{.in = in, .out = out}));
    in = out;
    if (s.dropout > 0 && i < s.hidden.size()) {
      dropouts_.push_back(std::make_unique<Dropout>(fmt::format("drop{}", i + 1), s.dropout));
    }
  }
}

Tensor Mlp::forward(const Tensor& x) const {
  Tensor y = flatten(x);
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    y = relu((*layers_[i])(y));
    if (!dropouts_.empty()) y = (*dropouts_[i])(y);
  }
  return (*layers_.back())(y);
}

}  // namespace tessera
