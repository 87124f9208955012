// compile: a C++ function of tensors, captured once for each signature and then only run.
//
//   auto step = tessera::compile([&](const Tensor& x, const Tensor& y) { ...; return loss; });
//   Tensor loss = step(x, y);                       // captures on the first call
//   CompiledStep& ready = step.prepare(specs);      // or ahead of the first batch
//   ready.input(0).assign(...); ready.run(); ready.output(0).item<float>();
//
// It is differentiable as a whole, by its arguments and by the parameters it uses: called outside a
// NoGradScope, its gradient is captured and planned with it (function_gradient.h), in the bits of
// eager mode. It may be called several times before gradients are taken, also of its own results.
// Called while another function is captured, it becomes a part of that one.
//
// One thread at a time: a call while another thread runs the function, or one that shares its
// arenas, throws ConcurrentCall (arena.h). Each thread may compile a function of its own.
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

// A signature decides which program runs: the arguments and the scopes around the call.
struct Signature {
  Specs arguments;
  Device device;
  bool training = false;           // TrainingScope (engine/scope.h)
  bool gradients = true;           // not in a NoGradScope (engine/autograd.h)
  std::vector<bool> tracked = {};  // arguments that gradients go back through; or empty
  Settings settings = {};          // SettingsScope (runtime/context.h)
  bool operator==(const Signature&) const = default;
};

// One signature of a compiled function, ready to run: as a program, or in eager mode as the
// function itself.
class CompiledStep {
 public:
  virtual ~CompiledStep() = default;
  const Signature& signature() const { return signature_; }

  // Write arguments here, in graph mode a slot of the program.
  virtual const Tensor& input(size_t i) = 0;
  // The results of the last run(), overwritten by the next.
  virtual const Tensor& output(size_t i) = 0;
  size_t inputs() const { return signature_.arguments.size(); }
  virtual size_t outputs() const = 0;  // in eager mode 0 before the first run()

  // Makes the slots stand in memory of the embedding program: slot_bytes() at the least, before
  // anything touches them. Throws ConfigError if that is too small or not aligned, Error if it
  // comes too late, and in eager mode. The arena brings its own (Arena::bring), as does the Store.
  virtual void use_external_slots(ExternalMemory external);
  // Takes all memory now, so that run() and submit() take none; nothing in eager mode, which cannot
  // promise it.
  virtual void bind() = 0;
  virtual void run() = 0;

  // Arguments and results on the host, of runs that a GPU works on while the host prepares the
  // next. Where runs cannot be ahead of the host, submit() returns when all is done: so the same
  // code serves both.
  //
  //   step.bring(0, images);  step.host_input(1).assign(...);  step.submit();
  //   ... the same for the next run, at most lag() runs ahead ...
  //   step.collect();  step.host_output(0).item<float>();
  //
  // Write argument i of the next submit() here. On the CPU a slot of the program.
  virtual const Tensor& host_input(size_t i);
  // Instead: takes it, whole, from there: staging_memory() of the device (runtime/context.h), which
  // must stay as it is until that run is collected, and while find_non_finite() asks about it.
  // Worth it for the largest argument.
  virtual void stage_input(size_t i, const void* staged);
  virtual void submit();
  // How many runs may be submitted and not yet collected when the next is filled: 1 for a program
  // on one GPU, else 0.
  virtual int max_runs_ahead() const { return 0; }
  // Waits for the oldest run that is submitted and not collected. Throws Error where lag() is 1 and
  // there is none.
  virtual void collect();
  // Result i of the run collected last, until the next submit(), with lag() 1 the next but one.
  virtual const Tensor& host_output(size_t i);
  // Context::refused_updates() as it was after that run.
  virtual int64_t refused_updates() const;
  // Copies the arguments into input(), runs, and returns copies of output() in eager memory.
  // Gradients go back through the arguments if the signature says so.
  virtual Tensors call(const Tensors& arguments) = 0;
  // After a run, or of that collected last: which op was the first to make a NaN or an infinity
  // (program.h), with the parameters as they are now. In eager mode a program is made for it, which
  // computes the same bits.
  virtual std::optional<NonFinite> find_non_finite() = 0;

  // Bytes of arguments, results and what is saved for the gradient; 0 in eager mode.
  virtual size_t slot_bytes() const = 0;
  // Of the device's staging memory, which host_input() and host_output() stand in; 0 where they
  // are slots, and in eager mode.
  virtual size_t staging_bytes() const { return 0; }
  // From the call of the function to a program ready to run; 0 in eager mode.
  virtual double compile_milliseconds() const = 0;
  // Returns the graph and its plan (plan_report.h), and what executes them; nullptr in eager mode.
  const CompiledGraph* compiled_graph();
  virtual Program* program() = 0;
  // Returns the program of the function's gradient; nullptr also where it has none, as a whole step
  // that updates the parameters.
  virtual Program* gradient_program() = 0;

 protected:
  explicit CompiledStep(Signature signature) : signature_(std::move(signature)) {}

 private:
  Signature signature_;
  Tensors host_inputs_, host_outputs_;  // of those that do not stand on the host themselves
};

class Compiled {
 public:
  Compiled(StepFunction fn, CompileOptions options);

  // Runs the program of this signature and returns copies of the results in eager memory, which
  // later calls leave as they are. run() and output() of a CompiledStep copy nothing.
  Tensors call(const Tensors& arguments);
  // Captures, lowers and plans, unless this signature is there already; the arguments are not
  // tracked. The step stays until WhenFull::drop_oldest lets it go. Throws what the function
  // throws, ConfigError for an unknown pass, and Error for a signature too many under
  // WhenFull::refuse.
  CompiledStep& prepare(const Specs& arguments);

  // How often the function was captured, and why: "first call", "argument 0: uint8[...], before
  // ...".
  int trace_count() const { return static_cast<int>(reasons_.size()); }
  const std::vector<std::string>& trace_reasons() const { return reasons_; }
  // What is compiled, in the order of capture. Throws Error where there is no such step, as before
  // the first call.
  size_t steps() const { return steps_.size(); }
  CompiledStep& step(size_t i);
  // As text: the graph after all passes, a line a node, and what its plan needs and who needs most.
  std::string graph(size_t i = 0);
  std::string plan(size_t i = 0);
  const std::shared_ptr<Arenas>& arenas() const { return options_.arenas; }

 private:
  CompiledStep& prepare(Signature signature);
  void evict_if_full(const std::string& why);

  std::unique_ptr<StepFunction> fn_;
  CompileOptions options_;
  std::vector<std::unique_ptr<CompiledStep>> steps_;
  std::vector<uint64_t> last_use_;  // of each step, by a count of all uses
  uint64_t uses_ = 0;
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

template <size_t>
using TensorArgument = const Tensor&;

// Finds how many tensors F takes.
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
