// Parts of networks: NetworkBuilder, a convolution with batch norm, and the error of an option.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tessera/layers/modules.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/runtime/error.h"

namespace tessera {

// Thrown by a network for an invalid value of one of its options.
class OptionError : public ConfigError {
 public:
  // `option` is its name in configurations, such as "depth".
  OptionError(std::string option, const std::string& text)
      : ConfigError(text), option_(std::move(option)) {}
  const std::string& option() const { return option_; }

 private:
  std::string option_;
};

using Activation = Tensor (*)(const Tensor&);

// A layer without parameters.
class FunctionModule final : public Module {
 public:
  FunctionModule(std::string name, std::function<Tensor(const Tensor&)> function)
      : Module(std::move(name)), function_(std::move(function)) {}

 private:
  Tensor forward(const Tensor& x) const override { return function_(x); }
  std::function<Tensor(const Tensor&)> function_;
};

// A convolution without bias, batch norm, and an activation if there is one.
class ConvNorm final : public Module {
 public:
  // Ignores conv.bias and norm.channels. A null activation means none.
  ConvNorm(Store& store, std::string conv_name, std::string norm_name, Conv2d::Settings conv,
           Activation activation, BatchNorm2d::Settings norm = {})
      : Module(""),
        conv_(store, std::move(conv_name), (conv.bias = false, conv)),
        norm_(store, std::move(norm_name), (norm.channels = conv.out, norm)),
        activation_(activation) {}

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = norm_(conv_(x));
    return activation_ != nullptr ? activation_(y) : y;
  }

  Conv2d conv_;
  BatchNorm2d norm_;
  Activation activation_;
};

// Builds a network that calls its modules one after the other.
//
//   net.add<Conv2d>("conv1", {.in = 3, .out = 16});
//   net.apply(relu);
class NetworkBuilder {
 public:
  explicit NetworkBuilder(Store& store) : store_(store) {}

  template <class M>
  void add(std::string name, const typename M::Settings& settings) {
    net_->add<M>(store_, std::move(name), settings);
  }
  template <class M, class... Arguments>
  void add(Arguments&&... arguments) {
    net_->add<M>(store_, std::forward<Arguments>(arguments)...);
  }
  void apply(std::function<Tensor(const Tensor&)> function) {
    net_->add<FunctionModule>("", std::move(function));
  }
  // Adds the layer and a relu.
  template <class M>
  void add_with_relu(std::string name, const typename M::Settings& settings) {
    add<M>(std::move(name), settings);
    apply(relu);
  }
  // Adds a ConvNorm: the convolution "NAME.0" and the norm "NAME.1".
  void conv_norm(const std::string& name, const Conv2d::Settings& conv, Activation activation,
                 const BatchNorm2d::Settings& norm = {}) {
    add<ConvNorm>(name + ".0", name + ".1", conv, activation, norm);
  }
  void max_pool(const Pool2dParams& params) {
    apply([params](const Tensor& x) { return max_pool2d(x, params); });
  }
  // Adds nothing if the probability is 0.
  void dropout(std::string name, double probability) {
    if (probability > 0) net_->add<Dropout>(std::move(name), probability);
  }
  std::unique_ptr<Module> made() { return std::move(net_); }

 private:
  Store& store_;
  std::unique_ptr<Sequential> net_ = std::make_unique<Sequential>();
};

}  // namespace tessera
