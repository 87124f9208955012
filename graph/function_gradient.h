// FunctionGradient: the gradient of a compiled function. Function and gradient are captured
// together and split into two programs.
//
//   function   arguments            -> results, saved values
//   gradient   gradients of results -> gradients of the leaves; reads the saved values
//
// A saved value is a value of the forward pass that the gradient reads. It is planned as a result
// in the slots of the function's program. A later call overwrites the slots, so values whose
// gradient may still be taken are first copied to eager memory, and copied back when it is taken.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tessera/graph/capture.h"

namespace tessera {

class Arenas;           // arena.h
class Program;          // program.h
struct CompileOptions;  // compile_options.h

struct CapturedGradient {
  Graph graph;                 // arguments: one for each of `results`; results: one for each leaf
  std::vector<int> results;    // results of the function with a gradient
  std::vector<int> arguments;  // leaves: arguments of the function, followed by
  Tensors outside;             // external tensors: parameters
  // A value of the function that the gradient reads. bind() sets the address of `storage`.
  struct Saved {
    int index;      // argument or result of the function's graph
    bool argument;  // true: an argument
    std::shared_ptr<Storage> storage;
  };
  std::vector<Saved> saved;
};

struct CapturedFunction {
  Graph graph;         // results: those of the function, then the saved values
  size_t results = 0;  // number of results of the function
  // For each result: why no gradient can be taken of it although it depends on tracked tensors;
  // nullptr if there is no such reason.
  std::vector<std::shared_ptr<const GradientStop>> stops;
  std::optional<CapturedGradient> gradient;  // unset if no result depends on a leaf
};

// Captures fn like capture(). The arguments marked in `tracked` are leaves, as are parameters. In a
// NoGradScope the result has no gradient.
CapturedFunction capture_function(const StepFunction& fn, const Specs& arguments,
                                  const std::vector<bool>& tracked);

// The gradient of a compiled function, ready to run.
class FunctionGradient {
 public:
  // Errors name the function by its `arguments`.
  FunctionGradient(CapturedGradient captured, const CompileOptions& options, Specs arguments);
  ~FunctionGradient();

  Program& program() { return *program_; }
  // Binds the gradient's program to the slots of `function`. Call it after function.bind().
  void bind(Program& function);
  // Copies the saved values of the last call to eager memory, if its gradient may still be taken.
  // Call it before the slots are overwritten. Throws OutOfMemory and then changes nothing.
  void keep_last_call();
  // Records a run of the function on the tape: `results` are made from `arguments` and the
  // parameters. Call it after each run.
  static void tie(const std::shared_ptr<FunctionGradient>& self, const Tensors& arguments,
                  const Tensors& results);

  // A call of the function whose gradient has not been taken yet.
  struct Call {
    std::vector<uint64_t> versions;               // versions of watched_ right after the call
    std::vector<std::shared_ptr<Storage>> saved;  // the saved values, no longer in the slots
  };
  // Returns the gradients of the leaves in eager memory. May be called once for each call. Throws
  // Error if a value that the gradient reads has been overwritten since the call.
  Tensors run(Call& call, std::span<const Tensor> upstream, const std::vector<bool>& needed);

 private:
  std::vector<std::shared_ptr<Storage>> copy_of_slots() const;
  void write_slots(const std::vector<std::shared_ptr<Storage>>& values);

  CapturedGradient captured_;
  const Specs arguments_;
  const std::shared_ptr<Arenas> arenas_;
  std::unique_ptr<Program> program_;
  // The storages that the gradient reads: the slots of saved values, in order, then external
  // tensors.
  std::vector<std::shared_ptr<Storage>> watched_;
  std::weak_ptr<Call> last_;  // the call whose saved values are in the slots
};

}  // namespace tessera
