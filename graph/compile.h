// compile: a C++ function of tensors, captured once for each signature and then only run.
//
//   auto step = tessera::compile([&](const Tensor& x, const Tensor& y) { ...; return loss; });
//   Tensor loss = step(x, y);                       // captures on the first call
//   CompiledStep& ready = step.prepare(specs);      // or ahead of the first batch
//   ready.input(0).assign(...); ready.run(); ready.output(0).item<float>();
//
// A signature is the specs of the arguments and what else matters: the device and training
// scopes and cpu_context().kernels(). Not thread-safe; one program runs at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/runtime/context.h"

namespace tessera {

class Arena;    // arena.h
class Planner;  // memory/plan.h
class Program;  // program.h

using StepFunction = std::function<Tensors(const Tensors&)>;

struct CompileOptions {
  bool eager = false;                 // run the function as it is, without a graph
  const Planner* planner = nullptr;   // nullptr: "best"
  std::vector<std::string> disabled_passes = {};  // passes not to run (lower.h names them)
  std::string dump_after = {};        // print the graph to stdout after this pass
  bool verify_plan = false;           // watch the plan while it runs (program.h)
  bool replay_plan = false;           // the ownership replay (program.h)
  std::shared_ptr<Arena> arena = {};  // shared with other compiled functions; nullptr: its own
};

// One signature of a compiled function, ready to run.
class CompiledStep {
 public:
  CompiledStep();
  ~CompiledStep();
  // In graph mode a slot of the program, in eager mode a tensor of its own: write arguments here.
  const Tensor& input(size_t i);
  // The results of the last run(), overwritten by the next.
  const Tensor& output(size_t i);
  size_t inputs() const { return specs_.size(); }
  size_t outputs() const;
  void run();
  // From the call of the function to a program ready to run; 0 in eager mode.
  double compile_milliseconds() const { return compile_milliseconds_; }
  // nullptr in eager mode.
  Program* program() { return program_.get(); }

 private:
  friend class Compiled;
  Specs specs_;
  Device device_;
  bool training_ = false;
  CpuKernels kernels_ = CpuKernels::automatic;
  const StepFunction* fn_ = nullptr;
  std::unique_ptr<Program> program_;
  Tensors eager_inputs_, eager_outputs_;
  double compile_milliseconds_ = 0;
};

class Compiled {
 public:
  Compiled(StepFunction fn, CompileOptions options);

  // Runs the program of this signature; the results are overwritten by its next run (copy() keeps
  // them).
  Tensors call(const Tensors& arguments);
  // Captures, lowers and plans, unless this signature is there already. Throws what the function
  // throws, and ConfigError for an unknown pass.
  CompiledStep& prepare(const Specs& arguments);

  int trace_count() const { return static_cast<int>(steps_.size()); }
  // For each signature why it was captured: "first call", "argument 0: uint8[...] before, ...".
  const std::vector<std::string>& trace_reasons() const { return reasons_; }
  CompiledStep& step(size_t i) { return *steps_.at(i); }
  const std::shared_ptr<Arena>& arena() const { return options_.arena; }

 private:
  std::string reason(const Specs& arguments) const;

  std::unique_ptr<StepFunction> fn_;
  CompileOptions options_;
  std::vector<std::unique_ptr<CompiledStep>> steps_;
  std::vector<std::string> reasons_;
};

namespace internal {

inline Tensors as_tensors(Tensor result) { return {std::move(result)}; }
inline Tensors as_tensors(Tensors results) { return results; }

// Calls fn(arguments[0], ..., arguments[n - 1]).
template <class F, size_t... I>
auto spread(const F& fn, const Tensors& arguments, std::index_sequence<I...>) {
  return fn(arguments[I]...);
}

void check_argument_count(size_t wanted, size_t given);  // throws ShapeError

// Finds how many tensors F takes.
template <class F, size_t N = 0>
constexpr size_t arity() {
  auto takes = []<size_t... I>(std::index_sequence<I...>) {
    return std::is_invocable_v<F, std::conditional_t<I == I, const Tensor&, void>...>;
  };
  if constexpr (N > 8)
    return N;
  else if constexpr (takes(std::make_index_sequence<N>()))
    return N;
  else
    return arity<F, N + 1>();
}

}  // namespace internal

// A compiled function that is called like the original one. F takes up to eight tensors and returns
// one (R = Tensor) or several (R = Tensors).
template <class R>
class CompiledFunction : public Compiled {
 public:
  using Compiled::Compiled;
  template <class... T>
  R operator()(const T&... arguments) {
    Tensors results = call({arguments...});
    if constexpr (std::is_same_v<R, Tensor>)
      return results.at(0);
    else
      return results;
  }
};

// Compiles a function of tensors, or of one `const Tensors&`.
template <class F>
auto compile(F fn, CompileOptions options = {}) {
  if constexpr (std::is_invocable_v<F, const Tensors&>) {
    using R = std::invoke_result_t<F, const Tensors&>;
    StepFunction step = [fn = std::move(fn)](const Tensors& x) {
      return internal::as_tensors(fn(x));
    };
    return CompiledFunction<R>(std::move(step), std::move(options));
  } else {
    constexpr size_t n = internal::arity<F>();
    static_assert(n <= 8, "compile: the function must take up to eight tensors");
    auto spread = [fn = std::move(fn)](const Tensors& x) {
      internal::check_argument_count(n, x.size());
      return internal::spread(fn, x, std::make_index_sequence<n>());
    };
    using R = decltype(spread(Tensors{}));
    StepFunction step = [spread](const Tensors& x) { return internal::as_tensors(spread(x)); };
    return CompiledFunction<R>(std::move(step), std::move(options));
  }
}

}  // namespace tessera
