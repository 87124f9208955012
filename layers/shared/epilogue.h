// What an op with heavy arithmetic shares with others of its kind to apply a scalar program to its
// result while it is in the cache: input 0 of the program is the result, the others follow the op's
// own.
#pragma once

#include <optional>

#include "tessera/engine/op.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/layers/shared/epilogue_hook.h"

namespace tessera {

inline ScalarProgram identity_program() { return {.inputs = 1, .code = {}}; }
// Of an op that applies it to its result.
inline int64_t epilogue_flops(const ScalarProgram& p, const TensorSpec& result) {
  return p.operations() * result.shape.elements();
}

// An op that can have a program applied to its result.
class HasEpilogue {
 public:
  virtual const ScalarProgram& epilogue() const = 0;

 protected:
  ~HasEpilogue() = default;
};

// For a kernel whose op has `program` applied to its result; `extra` are the program's inputs after
// the result.
PointwisePlan epilogue_plan(const ScalarProgram& program, std::span<const TensorSpec> extra,
                            const TensorSpec& result);

// A plan over the inputs of one call. Made anew for each run; allocates nothing.
class EpilogueRun {
 public:
  EpilogueRun(const PointwisePlan& plan, Buffers extra, const Buffer& result);
  // Elements [first, first + count) of the result, which have just been written.
  void apply(int64_t first, int64_t count) const {
    if (run_) run_->apply(first, count);
  }
  // The same elements, made from those of `result`, which stays as it is. There is a program.
  template <class T>
  void apply_to(T* to, int64_t first, int64_t count) const {
    run_->apply_to(to, first, count);
  }
  // The same as what kernels take; nothing where the program does nothing. T is the result's.
  template <class T>
  Epilogue<T> hook() {
    if (!run_) return {};
    return {[](void* run, T*, int64_t first, int64_t count) {
              static_cast<EpilogueRun*>(run)->apply(first, count);
            },
            this};
  }

 private:
  std::optional<PointwiseRun> run_;
};

// `own` followed by `p`, whose input `fused_input` is own's result; nothing where `p` makes another
// shape or dtype of it, or the whole is too long. `result` is the op's output, p_in are the inputs
// of p.
std::optional<ScalarProgram> join_epilogue(const ScalarProgram& own, const ScalarProgram& p,
                                           int fused_input, const TensorSpec& result,
                                           std::span<const TensorSpec> p_in);
// `own` with `p` in place of its input `at`, which is not its first: own's inputs without it, then
// those of p; nothing where the whole is too long.
std::optional<ScalarProgram> join_prologue(const ScalarProgram& own, const ScalarProgram& p,
                                           int at);
// Of a program that makes an input of an op: the first of its inputs that is as large as what it
// makes, where the others are so too or vectors of channels and the like, and no function takes
// long; else -1. Only then may it be computed on the way.
int primary_input(const ScalarProgram& p, const TensorSpec& made, std::span<const TensorSpec> p_in);
// `p` with its input `main` first, the others in order.
ScalarProgram move_input_first(const ScalarProgram& p, int main);
// FusedOp::inputs for an op with `own` inputs.
std::vector<int> join_inputs(size_t own, const ScalarProgram& p, int fused_input);

}  // namespace tessera
