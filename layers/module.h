// Module: a named part of a network, with parameters in a store and a function of one tensor.
//
// Names are full, dotted paths ("layer1.0.conv1"). Ops, values and errors are reported under the
// name of their module; names of parameters begin with it ("layer1.0.conv1.weight"). A network is a
// class that holds its modules as members and calls them in forward(). Modules keep handles of
// tensors; calling a module changes only the buffers in its store. Not copyable, because each name
// is taken once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/engine/tensor.h"

namespace tessera {

class Module {
 public:
  // The name of the whole network is empty.
  explicit Module(std::string name) : name_(std::move(name)) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  // Runs forward(x) under this module's path.
  Tensor operator()(const Tensor& x) const;

 protected:
  virtual Tensor forward(const Tensor& x) const = 0;
  // Returns the full name of a part: "conv1" in the network, "layer1.0.conv1" in "layer1.0".
  std::string part(std::string_view name) const;

 private:
  std::string name_;
};

// A module that calls its modules one after the other.
class Sequential final : public Module {
 public:
  explicit Sequential(std::string name = "") : Module(std::move(name)) {}
  // Appends a new module and returns it: net.add<Linear>(store, "fc1", {...}).
  template <class M, class... Arguments>
  M& add(Arguments&&... arguments) {
    auto module = std::make_unique<M>(std::forward<Arguments>(arguments)...);
    M& made = *module;
    modules_.push_back(std::move(module));
    return made;
  }
  void add(std::unique_ptr<Module> module) { modules_.push_back(std::move(module)); }
  const std::vector<std::unique_ptr<Module>>& modules() const { return modules_; }

 private:
  Tensor forward(const Tensor& x) const override;
  std::vector<std::unique_ptr<Module>> modules_;
};

}  // namespace tessera
