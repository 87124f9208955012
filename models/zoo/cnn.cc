#include "tessera/models/zoo/cnn.h"

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/activation.h"
#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/option_error.h"

namespace tessera {

CnnBn::CnnBn(Store& store, const Settings& s) : Module("") {
  if (s.widths.empty() || s.widths.size() > 4) {
    throw OptionError(
        "widths", fmt::format("cnn_bn: takes one to four widths, was given {}", s.widths.size()));
  }
  int64_t in = s.channels, height = s.height, width = s.width;
  for (size_t i = 0; i < s.widths.size(); ++i) {
    convs_.push_back(std::make_unique<Conv2d>(
        store, fmt::format("conv{}", i + 1),
        Conv2d::Settings{.in = in, .out = s.widths[i], .kernel = 3, .padding = 1, .bias = false}));
    norms_.push_back(std::make_unique<BatchNorm2d>(store, fmt::format("bn{}", i + 1),
                                                   BatchNorm2d::Settings{.channels = s.widths[i]}));
    in = s.widths[i];
    if (i % 2 == 1) height /= 2, width /= 2;
  }
  if (height < 1 || width < 1) {
    throw ConfigError(fmt::format("cnn_bn: {} convolutions need a larger image than {}x{}",
                                  s.widths.size(), s.height, s.width));
  }
  if (s.dropout > 0) dropout_ = std::make_unique<Dropout>("drop", s.dropout);
  fc_ = std::make_unique<Linear>(store, "fc",
                                 Linear::Settings{.in = height * width * in, .out = s.classes});
}

Tensor CnnBn::forward(const Tensor& x) const {
  Tensor y = x;
  for (size_t i = 0; i < convs_.size(); ++i) {
    y = relu((*norms_[i])((*convs_[i])(y)));
    if (i % 2 == 1) y = max_pool2d(y, {.kernel = 2});
  }
  y = flatten(y);
  if (dropout_ != nullptr) y = (*dropout_)(y);
  return (*fc_)(y);
}

}  // namespace tessera
