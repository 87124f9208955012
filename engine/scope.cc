#include "tessera/engine/scope.h"

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

namespace tessera {
namespace {

thread_local bool training = false;
thread_local std::string module_path;
thread_local RandomScope* random_scope = nullptr;
thread_local std::vector<DeferredUpdate>* deferring = nullptr;

}  // namespace

TrainingScope::TrainingScope(bool on) : ValueScope(training, on) {}
bool is_training() { return training; }

ModulePathScope::ModulePathScope(std::string_view name) : outer_(module_path.size()) {
  if (!module_path.empty()) module_path += '.';
  module_path += name;
}
ModulePathScope::~ModulePathScope() { module_path.resize(outer_); }
std::string current_module_path() { return module_path; }

ModulePathReset::ModulePathReset(std::string fresh) : ValueScope(module_path, std::move(fresh)) {}

RandomScope::RandomScope(uint64_t seed, const Tensor& position, uint64_t first_call)
    : ValueScope(random_scope, this), seed_(seed), position_(position), calls_(first_call) {
  if (position.dtype() != DType::i64 || position.elements() != 2)
    throw ShapeError(
        fmt::format("RandomScope: position must be int64[2], but is {}", position.spec().text()));
}

DeferUpdatesScope::DeferUpdatesScope(std::vector<DeferredUpdate>& list)
    : ValueScope(deferring, &list) {}
std::vector<DeferredUpdate>* deferred_updates() { return deferring; }

RandomCall next_random_call(std::string_view op_name) {
  RandomScope* scope = random_scope;
  if (scope == nullptr)
    throw Error(
        fmt::format("{}: no RandomScope is open; open a RandomScope around the step, with a seed "
                    "and an int64[2] tensor of step and first sample",
                    op_name));
  std::string name = fmt::format("{}#{}", module_path, scope->calls_++);
  return {random_key(scope->seed_, name), scope->position_};
}

}  // namespace tessera
