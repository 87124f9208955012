#include "tessera/layers/module.h"

#include "tessera/engine/scope.h"
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

}  // namespace tessera
