#include "tessera/layers/modules.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/scale_channels.h"
#include "tessera/runtime/error.h"

namespace tessera {

Tensor Module::operator()(const Tensor& x) const {
  ModulePathReset place(name_);
  try {
    return forward(x);
  } catch (Error& error) {  // thrown by a check outside of ops
    error.locate(name_);
    throw;
  }
}

std::string Module::part(std::string_view name) const {
  return name_.empty() ? std::string(name) : name_ + "." + std::string(name);
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const auto& module : modules_) y = (*module)(y);
  return y;
}

namespace {

void require_positive(const Module& module, const char* what, int64_t value) {
  if (value >= 1) return;
  throw ConfigError(fmt::format("{}: {} must be >= 1, but is {}", module.name(), what, value));
}

}  // namespace

Conv2d::Conv2d(Store& store, std::string name, const Settings& s)
    : Module(std::move(name)),
      params_{
          .stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups} {
  require_positive(*this, "in", s.in);
  require_positive(*this, "out", s.out);
  require_positive(*this, "kernel", std::min(s.kernel.h, s.kernel.w));
  require_positive(*this, "groups", s.groups);
  if (s.in % s.groups != 0 || s.out % s.groups != 0) {
    throw ConfigError(fmt::format("{}: groups = {} must divide in = {} and out = {}", this->name(),
                                  s.groups, s.in, s.out));
  }
  if (s.identity && (s.groups != 1 || s.kernel.h % 2 == 0 || s.kernel.w % 2 == 0))
    throw ConfigError(
        fmt::format("{}: identity filters need one group and a kernel of odd sizes, but have {} "
                    "groups and kernel {}",
                    this->name(), s.groups, s.kernel.text()));
  const Shape shape{s.out, s.kernel.h, s.kernel.w, s.in / s.groups};
  Initializer init = Initializer::he_normal(shape.elements(1, 4));
  if (s.identity) init = init.with_identity();
  weight_ = store.parameter(part("weight"), shape, init);
  if (s.bias) bias_ = store.parameter(part("bias"), {s.out}, Initializer::zeros());
}

Tensor Conv2d::forward(const Tensor& x) const {
  Tensor y = conv2d(x, weight_, params_);
  return bias_.defined() ? bias(y, bias_) : y;
}

Whitening::Whitening(Store& store, std::string name, const Settings& s) : Module(std::move(name)) {
  require_positive(*this, "in", s.in);
  require_positive(*this, "kernel", s.kernel);
  const int64_t out = 2 * s.kernel * s.kernel * s.in;
  filters_ = store.buffer(part(kFilters), {out, s.kernel, s.kernel, s.in}, Initializer::zeros());
}

Linear::Linear(Store& store, std::string name, const Settings& s) : Module(std::move(name)) {
  require_positive(*this, "in", s.in);
  require_positive(*this, "out", s.out);
  const auto init = Initializer::uniform(1 / std::sqrt(static_cast<double>(s.in)));
  weight_ = store.parameter(part("weight"), {s.out, s.in}, init);
  if (s.bias) bias_ = store.parameter(part("bias"), {s.out}, init);
}

BatchNorm2d::BatchNorm2d(Store& store, std::string name, const Settings& s)
    : Module(std::move(name)), params_{.eps = s.eps, .momentum = s.momentum} {
  require_positive(*this, "channels", s.channels);
  gamma_ = s.scale ? store.parameter(part("gamma"), {s.channels}, Initializer::ones())
                   : store.buffer(part("gamma"), {s.channels}, Initializer::ones());
  beta_ = store.parameter(part("beta"), {s.channels}, Initializer::zeros());
  running_mean_ = store.buffer(part("running_mean"), {s.channels}, Initializer::zeros());
  running_var_ = store.buffer(part("running_var"), {s.channels}, Initializer::ones());
}

Tensor BatchNorm2d::forward(const Tensor& x) const {
  const TrainingScope frozen(is_training() && beta_.impl()->storage->role == Role::parameter);
  return batch_norm(x, gamma_, beta_, running_mean_, running_var_, params_);
}

LayerNorm::LayerNorm(Store& store, std::string name, const Settings& s)
    : Module(std::move(name)), params_{.eps = s.eps} {
  require_positive(*this, "features", s.features);
  gamma_ = store.parameter(part("gamma"), {s.features}, Initializer::ones());
  beta_ = store.parameter(part("beta"), {s.features}, Initializer::zeros());
}

GroupNorm::GroupNorm(Store& store, std::string name, const Settings& s)
    : Module(std::move(name)), params_{.groups = s.groups, .eps = s.eps} {
  require_positive(*this, "channels", s.channels);
  require_positive(*this, "groups", s.groups);
  if (s.channels % s.groups != 0) {
    throw ConfigError(fmt::format("{}: groups = {} must divide channels = {}", this->name(),
                                  s.groups, s.channels));
  }
  gamma_ = store.parameter(part("gamma"), {s.channels}, Initializer::ones());
  beta_ = store.parameter(part("beta"), {s.channels}, Initializer::zeros());
}

PRelu::PRelu(Store& store, std::string name, const Settings& s) : Module(std::move(name)) {
  require_positive(*this, "channels", s.channels);
  weight_ = store.parameter(part("weight"), {s.channels}, Initializer::constant(s.slope));
}

LayerScale::LayerScale(Store& store, std::string name, const Settings& s)
    : Module(std::move(name)) {
  require_positive(*this, "channels", s.channels);
  gamma_ = store.parameter(part("gamma"), {s.channels}, Initializer::constant(s.init_value));
}

Tensor LayerScale::forward(const Tensor& x) const { return cast(x * gamma_, x.dtype()); }

SqueezeExcitation::SqueezeExcitation(Store& store, std::string name, const Settings& s)
    : Module(std::move(name)),
      fc1_(store, part("fc1"), {.in = s.channels, .out = s.squeeze, .kernel = 1}),
      fc2_(store, part("fc2"), {.in = s.squeeze, .out = s.channels, .kernel = 1}),
      activation_(s.activation),
      gate_(s.gate) {}

Tensor SqueezeExcitation::forward(const Tensor& x) const {
  const Tensor means = global_average_pool(x);
  const int64_t n = means.shape()[0], c = means.shape()[1];
  const Tensor y = gate_(fc2_(activation_(fc1_(reshape(means, Shape{n, 1, 1, c})))));
  return scale_channels(x, reshape(y, Shape{n, c}));
}

}  // namespace tessera
