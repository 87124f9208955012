// Epilogues: a scalar program that an op applies to its result while the result is in the cache.
//
// For ops with heavy arithmetic. Input 0 of the program is the result; the program's other inputs
// ("extra") follow the op's own inputs:
//
//   op(x, w)                     y = conv2d(x, w)
//   program(y, gamma, shortcut)  y = relu(y gamma + shortcut)
//   fused op                     inputs x, w, gamma, shortcut
#pragma once

#include <limits>
#include <optional>

#include "tessera/engine/op.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_run.h"
#include "tessera/layers/shared/epilogue_hook.h"

namespace tessera {

// The epilogue of an op with no program fused, whose result has this dtype: nothing, or rounding.
inline ScalarProgram plain_epilogue(DType result) {
  return with_result({.inputs = 1, .code = {}}, result);
}
// Returns whether an epilogue at most rounds.
inline bool is_plain(const ScalarProgram& epilogue) {
  return epilogue.code.empty() ||
         (epilogue.code.size() == 1 && is_half(result_type(epilogue, DType::f32)));
}
// Returns the flops that applying `p` to every element of `result` adds to an op.
inline int64_t epilogue_flops(const ScalarProgram& p, const TensorSpec& result) {
  return p.operations() * result.shape.elements();
}

// Implemented by ops that can have an epilogue.
class HasEpilogue {
 public:
  virtual const ScalarProgram& epilogue() const = 0;

 protected:
  ~HasEpilogue() = default;
};

// Returns the plan of an epilogue, made when a kernel is prepared. `extra` are the specs of the
// program's inputs after the result, which is `result` before the epilogue and is stored in dtype
// `to` after it.
PointwisePlan epilogue_plan(const ScalarProgram& program, SpecView extra, const TensorSpec& result,
                            DType to);

// An epilogue that is a BiasActivation: the indices of its inputs in `extra`; -1: none.
struct BiasActivationPlan {
  int scale = -1, bias = -1;
  int residual = -1, residual_scale = -1, residual_bias = -1;
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  // Returns the BiasActivation of one run.
  template <class T>
  BiasActivation<T> bound_to(Buffers extra, T* result = nullptr) const;
};
// Returns nothing for other programs and dtypes `to` than float32 and bfloat16. Arguments as for
// epilogue_plan().
std::optional<BiasActivationPlan> bias_activation(const ScalarProgram& program, SpecView extra,
                                                  const TensorSpec& result, DType to);

// An epilogue bound to the buffers of one run. Made on the stack for each run; allocates nothing.
// apply() and apply_to() may be called by several threads at once, for disjoint ranges.
class EpilogueRun {
 public:
  EpilogueRun(const PointwisePlan& plan, Buffers extra, const Buffer& result)
      : EpilogueRun(plan, extra, result, result) {}
  // Reads the result in `from` and writes to `to`.
  EpilogueRun(const PointwisePlan& plan, Buffers extra, const Buffer& from, const Buffer& to);
  // Applies the program to elements [first, first + count) of the result, which have just been
  // written: to the buffer of the result or, if set, to `rows`. Does nothing for the identity
  // program.
  void apply(int64_t first, int64_t count, const void* rows = nullptr) const {
    if (run_) run_->apply(first, count, rows);
  }
  // Reads the same range of the result, which stays unchanged, or `rows`, if set, and writes the
  // program's values to `to`. Requires a program that is not the identity.
  template <class T>
  void apply_to(T* to, int64_t first, int64_t count, const void* rows = nullptr) const {
    run_->apply_to(to, first, count, rows);
  }
  // Returns apply() as the callback of kernels; an empty one for the identity program. T is the
  // element type of the result. The callback refers to *this.
  template <class T>
  Epilogue<T> hook() {
    if (!run_) return {};
    return {[](void* run, T* rows, int64_t first, int64_t count) {
              static_cast<EpilogueRun*>(run)->apply(first, count, rows);
            },
            this};
  }

 private:
  std::optional<PointwiseRun> run_;
};

// Returns the program that applies `own` and then `p`, whose input `fused_input` is own's result.
// `result` is the spec of the op's output, p_in are the specs of p's inputs. Returns nullopt if p
// does not keep the shape and dtype of the result, or if the joined program has more than
// kMaxScalarRegisters registers.
std::optional<ScalarProgram> join_epilogue(const ScalarProgram& own, const ScalarProgram& p,
                                           int fused_input, const TensorSpec& result,
                                           SpecView p_in);
// Returns `own` with its input `at` (not 0) computed by `p`: own's other inputs, then those of p.
// Returns nullopt if the joined program has more than kMaxScalarRegisters registers.
std::optional<ScalarProgram> join_prologue(const ScalarProgram& own, const ScalarProgram& p,
                                           int at);
// Returns the primary input of `p`, a program that computes the input `made` of an op: the first of
// p's inputs with the shape of `made`. Returns -1 if p must not be fused as a prologue: no input
// has that shape, an input cannot be broadcast or has another dtype, or p has a slow function (pow,
// log, tanh, sin, cos, erf), which every user would recompute.
int primary_input(const ScalarProgram& p, const TensorSpec& made, SpecView p_in);
// Returns `p` with input `main` moved to the front; the others keep their order.
ScalarProgram move_input_first(const ScalarProgram& p, int main);
// Returns FusedOp::inputs for an op with `own` inputs and the epilogue p.
std::vector<int> join_inputs(size_t own, const ScalarProgram& p, int fused_input);

}  // namespace tessera
