// compile(): turns a C++ function of tensors into programs, captured once for each signature.
//
//   auto step = tessera::compile([&](const Tensor& x, const Tensor& y) { ...; return loss; });
//   Tensor loss = step(x, y);                       // captures on the first call
//   CompiledStep& ready = step.prepare(specs);      // or ahead of the first batch
//   ready.input(0).assign(...); ready.run(); ready.output(0).item<float>();
//
// A compiled function is differentiable as a whole, with respect to its arguments and to the
// parameters it uses. If it is called outside a NoGradScope, its gradient is captured and planned
// with it (function_gradient.h); the bits are those of eager mode. It may be called several times
// before gradients are taken, also with its own results. A call during the capture of another
// function becomes part of that function.
//
// Not thread-safe: a call while another thread runs the function, or one that shares its arenas,
// throws ConcurrentCall (arena.h). Each thread may compile a function of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/graph/compile_options.h"
#include "tessera/memory/regions.h"
#include "tessera/runtime/context.h"

namespace tessera {

class Program;         // program.h
struct CompiledGraph;  // compiled_graph.h
struct NonFinite;      // program.h

using StepFunction = std::function<Tensors(const Tensors&)>;

// A signature selects the program: the argument specs and the scopes around the call.
struct Signature {
  Specs arguments;
  Device device;
  bool training = false;           // TrainingScope (engine/scope.h)
  bool gradients = true;           // not in a NoGradScope (engine/autograd.h)
  std::vector<bool> tracked = {};  // arguments with gradients; or empty
  Settings settings = {};          // SettingsScope (runtime/context.h)
  bool operator==(const Signature&) const = default;
};

// One signature of a compiled function, ready to run: a program, or the function itself in eager
// mode.
class CompiledStep {
 public:
  virtual ~CompiledStep() = default;
  const Signature& signature() const { return signature_; }

  // Returns the tensor in which argument i is written; in graph mode a slot of the program.
  virtual const Tensor& input(size_t i) = 0;
  // Returns result i of the last run(); the next run overwrites it.
  virtual const Tensor& output(size_t i) = 0;
  size_t inputs() const { return signature_.arguments.size(); }
  virtual size_t outputs() const = 0;  // in eager mode 0 before the first run()

  // Places the slots in memory of the embedding program, at least slot_bytes(). Call it before any
  // other use. Throws ConfigError if the memory is too small or not aligned; Error if the call is
  // too late, and in eager mode. The arena and the Store have methods of their own for this
  // (Arena::bring).
  virtual void use_external_slots(ExternalMemory external);
  // Allocates all memory, so that run() and submit() allocate none. Does nothing in eager mode,
  // where runs may allocate.
  virtual void bind() = 0;
  virtual void run() = 0;

  // The methods below keep arguments and results on the host and overlap runs on a GPU with the
  // host's preparation of the next run. If runs cannot be ahead of the host, submit() returns when
  // the run is done, so the same code works on every device.
  //
  //   step.stage_input(0, images);  step.host_input(1).assign(...);  step.submit();
  //   ... submit further runs the same way, at most max_runs_ahead() runs ahead ...
  //   step.collect();  step.host_output(0).item<float>();
  //
  // Returns the tensor in which argument i of the next submit() is written. On the CPU it is a slot
  // of the program.
  virtual const Tensor& host_input(size_t i);
  // Uses `staged` as the whole argument i instead of host_input(i). Requires staging_memory() of
  // the device (runtime/context.h), unchanged until that run is collected and while
  // find_non_finite() examines it. Worth it for the largest argument.
  virtual void stage_input(size_t i, const void* staged);
  virtual void submit();
  // Returns the maximum number of uncollected runs when the next one is filled: 1 for a program on
  // one GPU, else 0.
  virtual int max_runs_ahead() const { return 0; }
  // Waits for the oldest uncollected run. Throws Error if max_runs_ahead() is 1 and there is none.
  virtual void collect();
  // Returns result i of the run collected last. Valid until the next submit(); if max_runs_ahead()
  // is 1, until the one after that.
  virtual const Tensor& host_output(size_t i);
  // Returns Context::skipped_updates() as of that run.
  virtual int64_t skipped_updates() const;
  // Copies `arguments` into input(), runs the step and returns its results in eager memory. If
  // signature().tracked marks arguments, the call is recorded on the tape, so that gradients flow
  // back to them.
  virtual Tensors call(const Tensors& arguments) = 0;
  // Finds the op that first produced a NaN or an infinity (program.h) in the last run, or after
  // submit() in the run collected last. Uses the current parameters. In eager mode compiles a
  // program for this, which computes the same bits.
  virtual std::optional<NonFinite> find_non_finite() = 0;

  // Returns the bytes of arguments, results and values saved for the gradient; 0 in eager mode.
  virtual size_t slot_bytes() const = 0;
  // Returns the bytes of pinned staging memory for host_input() and host_output(); 0 if these are
  // slots, and in eager mode.
  virtual size_t staging_bytes() const { return 0; }
  // Returns the time from the call of the function to a program that is ready to run; 0 in eager
  // mode.
  virtual double compile_milliseconds() const = 0;
  // Returns the graph and its plan (plan_report.h); nullptr in eager mode.
  const CompiledGraph* compiled_graph();
  virtual Program* program() = 0;
  // Returns the program of the function's gradient; nullptr if it has none, as for a whole step
  // that updates the parameters.
  virtual Program* gradient_program() = 0;

 protected:
  explicit CompiledStep(Signature signature) : signature_(std::move(signature)) {}

 private:
  Signature signature_;
  Tensors host_inputs_, host_outputs_;  // for tensors on another device
};

class Compiled {
 public:
  Compiled(StepFunction fn, CompileOptions options);

  // Runs the program of this signature and returns copies of the results in eager memory, which
  // later calls do not change. run() and output() of a CompiledStep copy nothing.
  Tensors call(const Tensors& arguments);
  // Captures, lowers and plans unless this signature is compiled already; the arguments are not
  // tracked. The step is valid until WhenFull::drop_oldest evicts it. Throws what the function
  // throws, ConfigError for an unknown pass, and Error for a signature beyond max_signatures under
  // WhenFull::refuse.
  CompiledStep& prepare(const Specs& arguments);

  // The number of captures and the reason for each: "first call", "argument 0: uint8[...], before
  // ...".
  int trace_count() const { return static_cast<int>(reasons_.size()); }
  const std::vector<std::string>& trace_reasons() const { return reasons_; }
  // The compiled steps in the order of capture. step(i) throws Error if there is no such step, as
  // before the first call.
  size_t steps() const { return steps_.size(); }
  CompiledStep& step(size_t i);
  // Return a text: the graph after all passes, one node a line; and the plan with its largest
  // tensors.
  std::string graph(size_t i = 0);
  std::string plan(size_t i = 0);
  const std::shared_ptr<Arenas>& arenas() const { return options_.arenas; }

 private:
  CompiledStep& prepare(Signature signature);
  void evict_if_full(const std::string& why);

  std::unique_ptr<StepFunction> fn_;
  CompileOptions options_;
  std::vector<std::unique_ptr<CompiledStep>> steps_;
  std::vector<uint64_t> last_use_;  // for each step: value of uses_ at its last use
  uint64_t uses_ = 0;
  std::vector<std::string> reasons_;
};

namespace internal {

inline Tensors as_tensors(Tensor result) { return {std::move(result)}; }
inline Tensors as_tensors(Tensors results) { return results; }

void check_argument_count(size_t wanted, size_t given);  // throws ShapeError

template <size_t>
using TensorArgument = const Tensor&;

// Returns the number of tensors that F takes.
template <class F, size_t N = 0>
constexpr size_t arity() {
  auto takes = []<size_t... I>(std::index_sequence<I...>) {
    return std::is_invocable_v<F, TensorArgument<I>...>;
  };
  if constexpr (N > 8)
    return N;
  else if constexpr (takes(std::make_index_sequence<N>()))
    return N;
  else
    return arity<F, N + 1>();
}

}  // namespace internal

// A compiled function with the call syntax of the original. F takes up to eight tensors and returns
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
      return [&]<size_t... I>(std::index_sequence<I...>) { return fn(x[I]...); }
      (std::make_index_sequence<n>());
    };
    using R = decltype(spread(Tensors{}));
    StepFunction step = [spread](const Tensors& x) { return internal::as_tensors(spread(x)); };
    return CompiledFunction<R>(std::move(step), std::move(options));
  }
}

}  // namespace tessera
