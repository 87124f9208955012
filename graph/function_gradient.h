// A compiled function that is differentiable as a whole: it and its gradient are captured together
// and cut in two programs.
//
//   function   arguments            -> results, saved values
//   gradient   gradients of results -> gradients of the leaves; reads the saved values
//
// A saved value is whatever the gradient reads of the forward pass. It stands in the slots of the
// function's program, so it is planned. A later call overwrites the slots; values whose gradient
// may still be taken are copied to eager memory before, and come back when it is taken.
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
  Graph graph;                 // arguments: for each of `results`; results: for each leaf
  std::vector<int> results;    // the function's results that gradients come back from
  std::vector<int> arguments;  // the leaves: arguments of the function, then
  Tensors outside;             // tensors from outside: parameters
  // What it reads of the function, in a storage that is told its address when both are bound.
  struct Saved {
    int index;      // of an argument or of a result of the function's graph
    bool argument;  // which of them
    std::shared_ptr<Storage> storage;
  };
  std::vector<Saved> saved;
};

struct CapturedFunction {
  Graph graph;         // results: the function's, then the saved values
  size_t results = 0;  // of the function
  // Of each result that a gradient cannot be taken of, though it depends on tracked tensors.
  std::vector<std::shared_ptr<const GradientStop>> stops;
  std::optional<CapturedGradient> gradient;  // none where no result depends on a leaf
};

// As capture(); the arguments for which `tracked` is set are leaves, as parameters are. In a
// NoGradScope there is no gradient.
CapturedFunction capture_function(const StepFunction& fn, const Specs& arguments,
                                  const std::vector<bool>& tracked);

// The gradient of a compiled function, ready to run.
class FunctionGradient {
 public:
  // `arguments` of the function are what errors name it by.
  FunctionGradient(CapturedGradient captured, const CompileOptions& options, Specs arguments);
  ~FunctionGradient();

  Program& program() { return *program_; }
  // Binds after `function`, whose slots it reads.
  void bind(Program& function);
  // Before the slots are overwritten: copies the saved values of the last call to eager memory,
  // unless nothing is left that could take its gradient. Throws OutOfMemory, changing nothing.
  void keep_last_call();
  // After each run of the function: ties its results to the tape, as made of `arguments` and of the
  // parameters.
  static void tie(const std::shared_ptr<FunctionGradient>& self, const Tensors& arguments,
                  const Tensors& results);

  // A call of the function whose gradient has not been taken yet.
  struct Call {
    std::vector<uint64_t> versions;  // of what the gradient reads, right after the call
    std::vector<std::shared_ptr<Storage>> saved;  // the saved values, no longer in the slots
  };
  // The gradients of the leaves, in eager memory; once for each call. Throws Error if what it reads
  // has been overwritten since the call.
  Tensors run(Call& call, std::span<const Tensor> upstream, const std::vector<bool>& needed);

 private:
  std::vector<std::shared_ptr<Storage>> copy_of_slots() const;
  void write_slots(const std::vector<std::shared_ptr<Storage>>& values);

  CapturedGradient captured_;
  const Specs arguments_;
  const std::shared_ptr<Arenas> arenas_;
  std::unique_ptr<Program> program_;
  // What it reads: the slots of saved values, in order, then tensors from outside.
  std::vector<std::shared_ptr<Storage>> watched_;
  std::weak_ptr<Call> last_;  // whose saved values stand in the slots
};

}  // namespace tessera
