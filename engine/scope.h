// Scopes that ops and modules read: training or evaluation, module path, random numbers. Each
// thread has its own stack; the innermost scope counts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/engine/tensor.h"

namespace tessera {

class Op;  // op.h

// The base of scopes: sets a variable of the thread, and restores it at the end.
template <class T>
class ValueScope {
 public:
  ValueScope(T& variable, T value)
      : variable_(variable), outer_(std::exchange(variable, std::move(value))) {}
  ~ValueScope() { variable_ = std::move(outer_); }
  ValueScope(const ValueScope&) = delete;
  ValueScope& operator=(const ValueScope&) = delete;

 private:
  T& variable_;
  T outer_;
};

// Batch norm and dropout behave differently in training and in evaluation. Default: evaluation.
struct TrainingScope : ValueScope<bool> {
  explicit TrainingScope(bool training = true);
};
bool is_training();

// Appends ".name" to the module path of ops, values and errors ("layer1.0.conv1").
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

// Replaces the module path. Gradients are computed under the path of the forward op.
struct ModulePathReset : ValueScope<std::string> {
  explicit ModulePathReset(std::string module_path);
};

// The random numbers of random ops (dropout), from a counter-based generator. `seed` gives the
// keys. `position` is the counter, int64[2] = {step, index of the batch's first sample}, which the
// host changes before every step, so that a captured step is not captured again. Calls within a
// scope are counted from `first_call` on, so each has its own numbers.
class RandomScope : ValueScope<RandomScope*> {
 public:
  RandomScope(uint64_t seed, const Tensor& position, uint64_t first_call = 0);

 private:
  friend struct RandomCall next_random_call(std::string_view op_name);
  uint64_t seed_;
  Tensor position_;
  uint64_t calls_;
};

// The key of one call of a random op, derived from (seed, module path, call within the scope).
struct RandomCall {
  uint64_t key;
  Tensor position;
};
RandomCall next_random_call(std::string_view op_name);  // throws Error without a RandomScope

// While this scope exists, ops that update persistent tensors (running statistics) are not applied
// but put on a list; their results are the tensors as they are. The caller applies them.
struct DeferredUpdate {
  std::shared_ptr<const Op> op;
  std::vector<Tensor> inputs;
  std::string module_path;
};
struct DeferUpdatesScope : ValueScope<std::vector<DeferredUpdate>*> {
  explicit DeferUpdatesScope(std::vector<DeferredUpdate>& list);
};
std::vector<DeferredUpdate>* deferred_updates();  // nullptr without a scope

// While this scope exists, ops of this thread are not recorded on the tape.
struct NoGradScope : ValueScope<bool> {
  NoGradScope();
};

}  // namespace tessera
