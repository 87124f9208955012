// What most networks of the zoo are put together from: a convolution without bias, batch norm, and
// an activation where there is one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

using Activation = Tensor (*)(const Tensor&);

// Modules that are called one after the other.
using Chain = std::vector<std::unique_ptr<Module>>;
inline Tensor in_turn(const Chain& chain, Tensor x) {
  for (const auto& module : chain) x = (*module)(x);
  return x;
}

class ConvNorm final : public Module {
 public:
  // What `conv` says of a bias and `norm` of channels does not count. activation: none when
  // nullptr.
  ConvNorm(Store& store, std::string conv_name, std::string norm_name, Conv2d::Settings conv,
           Activation activation, BatchNorm2d::Settings norm = {})
      : Module(""),
        conv_(store, std::move(conv_name), (conv.bias = false, conv)),
        norm_(store, std::move(norm_name), (norm.channels = conv.out, norm)),
        activation_(activation) {}

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = norm_(conv_(x));
    return activation_ != nullptr ? activation_(y) : y;
  }

 private:
  Conv2d conv_;
  BatchNorm2d norm_;
  Activation activation_;
};

}  // namespace tessera
