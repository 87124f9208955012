// Scopes that ops and modules look at: training or evaluation, module path, random numbers.
// One stack for each thread; the innermost counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/engine/tensor.h"

namespace tessera {

// Batch norm and dropout behave differently in training and in evaluation. Default: evaluation.
class TrainingScope {
 public:
  explicit TrainingScope(bool training = true);
  ~TrainingScope();
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;

 private:
  bool outer_;
};
bool is_training();

// Adds ".name" to the module path that ops, values and errors are reported under
// ("layer1.0.conv1").
class ModulePathScope {
 public:
  explicit ModulePathScope(std::string_view name);
  ~ModulePathScope();
  ModulePathScope(const ModulePathScope&) = delete;
  ModulePathScope& operator=(const ModulePathScope&) = delete;

 private:
  size_t outer_;
};
std::string current_module_path();

// Replaces the module path (gradients are made under that of the forward op).
class ModulePathReset {
 public:
  explicit ModulePathReset(std::string module_path);
  ~ModulePathReset();
  ModulePathReset(const ModulePathReset&) = delete;
  ModulePathReset& operator=(const ModulePathReset&) = delete;

 private:
  std::string outer_;
};

// What random ops (dropout) draw from: a key for the program and a tensor int64[2] = {step, index
// of the batch's first sample}, which the host changes before every step, so that a captured step
// need not be captured again. Calls within a scope are counted: each has numbers of its own.
class RandomScope {
 public:
  RandomScope(uint64_t seed, const Tensor& position);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  friend struct RandomCall next_random_call(std::string_view op_name);
  RandomScope* outer_;
  uint64_t seed_;
  Tensor position_;
  uint64_t calls_ = 0;
};

// The key for one call of a random op: of (seed, module path, call within the scope).
struct RandomCall {
  uint64_t key;
  Tensor position;
};
RandomCall next_random_call(std::string_view op_name);  // throws Error when there is no RandomScope

}  // namespace tessera
