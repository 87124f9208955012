// Running a scalar program on the CPU. A PointwisePlan is made once, when a kernel is prepared: it
// finds the compiled code for the program, or lays it out for the interpreter, and settles how each
// input is read. A PointwiseRun is made for each run of the kernel, on its stack, and then applied
// to ranges of the output, on any thread. Only the plan allocates.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tessera/engine/dtype.h"
#include "tessera/engine/pointwise_simd.h"
#include "tessera/engine/scalar_program.h"

namespace tessera {

enum class PointwiseCode : uint8_t { automatic, interpreted };  // the same bits

class PointwisePlan {
 public:
  // For an output of `total` elements; input k of the program is read as broadcasts[k] says.
  PointwisePlan(const ScalarProgram& program, DType dtype, std::span<const Broadcast> broadcasts,
                int64_t total, PointwiseCode code = PointwiseCode::automatic);
  bool is_precompiled() const { return compiled_ != nullptr; }
  bool is_identity() const { return !is_precompiled() && steps_.empty(); }

 private:
  friend class PointwiseRun;
  // One that is not as large as the output is read from ...
  enum class Read : uint8_t {
    full,      // ... the output's place in it
    cyclic,    // ... its place in its period
    tiled,     // ... the same, in a copy that holds the period several times
    scalar,    // ... a pattern, as it is one value
    gathered,  // ... a block that is filled for each segment of the output
  };
  struct Input {
    Read read = Read::full;
    uint8_t source = 0;  // of the program's inputs, or kConstant
    uint8_t period = 0;  // of periods_, for a ring or pattern
    Broadcast broadcast;
    int64_t pattern = 0;  // where its pattern starts
    double value = 0;     // of a constant
  };
  static constexpr uint8_t kConstant = 255;
  // What inputs of the same period share. A pattern goes on after its end.
  struct Period {
    int64_t period;
    bool padded;
    bool operator==(const Period&) const = default;
  };
  struct Constant {
    uint8_t block;
    double value;
  };

  Input prepare_input(int source, const Broadcast& broadcast, int64_t total);
  Input constant_input(const ScalarProgram& program, int source);
  bool take_pattern(int64_t length, Input& input);
  uint8_t period_index(const Period& wanted);
  void interpret(const ScalarProgram& program);

  DType dtype_;
  PointwiseMicrokernels::Precompiled compiled_ = nullptr;
  bool single_segment_ = false;  // a range is one segment for compiled code
  std::vector<Input> inputs_;
  std::vector<Period> periods_;
  int64_t patterns_ = 0;  // elements
  std::vector<InterpretedStep> steps_;
  std::vector<Constant> constants_;
  int blocks_ = 0;  // of the interpreter
};

class PointwiseRun {
 public:
  // inputs[k] is the program's input k, `out` the whole output, which may be an input of its size.
  PointwiseRun(const PointwisePlan& plan, const void* const* inputs, void* out);
  PointwiseRun(const PointwiseRun&) = delete;
  PointwiseRun& operator=(const PointwiseRun&) = delete;
  // Computes elements [first, first + count) of the output; fastest where `first` is a multiple of
  // kPointwiseStep.
  void apply(int64_t first, int64_t count) const;
  // The same elements, written to `to` instead.
  void apply_to(void* to, int64_t first, int64_t count) const;

  static constexpr int64_t kPatternBytes = 32 << 10;

 private:
  template <class T>
  class Segments;

  template <class T>
  void repeat_patterns();
  bool single_segment(int64_t first) const;
  void run_precompiled(int64_t first, int64_t count, void* to) const;

  const PointwisePlan& plan_;
  const void* inputs_[kMaxScalarRegisters];  // in the order of the plan's
  void* out_;
  alignas(64) std::byte patterns_[kPatternBytes];
};

}  // namespace tessera
