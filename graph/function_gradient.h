// A compiled function that is differentiable as a whole: it and its gradient are captured together
// and cut in two programs.
//
//   function   arguments            -> results, saved values
//   gradient   gradients of results -> gradients of the leaves; reads the saved values
//
// A saved value is whatever the gradient reads of the forward pass. It stands in the slots of the
// function's program, so it is planned, and the next call overwrites it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tessera/graph/capture.h"

namespace tessera {

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
  FunctionGradient(CapturedGradient captured, const CompileOptions& options);
  ~FunctionGradient();

  Program& program() { return *program_; }
  // Binds after `function`, whose slots it reads.
  void bind(Program& function);
  // After each run of the function: ties its results to the tape, as made of `arguments` and of the
  // parameters.
  static void tie(const std::shared_ptr<FunctionGradient>& self, const Tensors& arguments,
                  const Tensors& results);
  // The gradients of the leaves, in eager memory. Throws Error where what it reads has been
  // overwritten since the call of that number.
  Tensors run(uint64_t call, std::span<const Tensor> upstream, const std::vector<bool>& needed);

 private:
  struct Watched {
    std::shared_ptr<Storage> storage;
    uint64_t version;
  };
  CapturedGradient captured_;
  std::unique_ptr<Program> program_;
  std::vector<Watched> watched_;  // what it reads, with the version it had in the last call
  uint64_t calls_ = 0;
};

}  // namespace tessera
