// PointwisePlan and PointwiseRun execute a scalar program on the CPU. A PointwisePlan is made when
// a kernel is prepared: it finds compiled code for the program, or lays it out for the interpreter,
// and decides how each input is read. A PointwiseRun is made on the stack for each run; several
// threads may apply it to ranges of the output. Only the plan allocates.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tessera/engine/dtype.h"
#include "tessera/engine/pointwise_simd.h"
#include "tessera/engine/scalar_program.h"

namespace tessera {

enum class PointwiseCode : uint8_t { automatic, interpreted };  // both compute the same bits

struct PointwiseOptions {
  PointwiseCode code = PointwiseCode::automatic;
  // The dtypes in memory, if they are not the one that is computed in: 16 bits are converted block
  // by block, and the result is rounded once.
  std::vector<DType> inputs = {};
  std::optional<DType> result = {};
};

class PointwisePlan {
 public:
  // `total` is the number of output elements; broadcasts[k] says how input k is read.
  PointwisePlan(const ScalarProgram& program, DType dtype, std::span<const Broadcast> broadcasts,
                int64_t total, const PointwiseOptions& options = {});
  bool is_precompiled() const { return compiled_ != nullptr; }
  // Returns whether the result is input 0 as it is.
  bool is_identity() const {
    return !is_precompiled() && steps_.empty() && inputs_[0].stored == result_ &&
           inputs_[0].read != Read::rounded && !is_half(rounded_);
  }

 private:
  friend class PointwiseRun;
  // The source of an input's values.
  enum class Read : uint8_t {
    full,       // the input, at the index of the output
    converted,  // a block, filled from such an input of 16 bits
    rounded,    // a block, filled from such an input, each value rounded to 16 bits
    cyclic,     // the input, at the index modulo the period
    tiled,      // a padded copy of several periods (a pattern)
    scalar,     // a pattern of one repeated value
    gathered,   // a block, filled again for each segment of the output
  };
  struct Input {
    Read read = Read::full;
    uint8_t source = 0;  // an input of the program, or kConstant
    uint8_t period = 0;  // index in periods_, if cyclic or tiled
    DType stored = DType::f32;
    Broadcast broadcast;
    int64_t pattern = 0;  // the start of its pattern
    double value = 0;     // the value if constant
  };
  static constexpr uint8_t kConstant = 255;
  static constexpr bool fills_block(Read read) {
    return read == Read::gathered || read == Read::converted || read == Read::rounded;
  }
  // The period of one or more inputs. A padded period is followed by kPointwiseStep more elements.
  struct Period {
    int64_t period;
    bool padded;
    bool operator==(const Period&) const = default;
  };
  struct Constant {
    uint8_t block;
    double value;
  };

  bool only_rounds() const {
    return dtype_ == DType::f32 && !is_precompiled() && steps_.empty() &&
           (is_half(result_) || is_half(rounded_));
  }
  bool any_half(DType of) const;  // whether an input, the result or a rounding has this type
  ScalarProgram without_outer_roundings(const ScalarProgram& program,
                                        std::span<const Broadcast> broadcasts, int64_t total,
                                        const PointwiseOptions& options);
  Input prepare_input(Input input, int64_t total);
  Input constant_input(const ScalarProgram& program, int source);
  bool take_pattern(int64_t length, Input& input);
  uint8_t period_index(const Period& wanted);
  void interpret(const ScalarProgram& program);

  DType dtype_, result_;
  DType rounded_ = DType::f32;          // the 16 bits to which a float32 result is rounded
  uint32_t round_inputs_ = 0;           // bit k: input k of the program is rounded as it is read,
  DType round_inputs_to_ = DType::f32;  // to this
  const PrecompiledCode* compiled_ = nullptr;
  bool takes_half_ = false;      // compiled code reads and writes bfloat16 as it is
  bool single_segment_ = false;  // compiled code computes a range as one segment
  std::vector<Input> inputs_;
  std::vector<Period> periods_;
  int64_t patterns_ = 0;  // elements
  std::vector<InterpretedStep> steps_;
  std::vector<Constant> constants_;
  int blocks_ = 0;  // used by the interpreter
};

class PointwiseRun {
 public:
  // inputs[k] is input k of the program. `out` is the whole output and may be an input of its size.
  PointwiseRun(const PointwisePlan& plan, const void* const* inputs, void* out);
  PointwiseRun(const PointwiseRun&) = delete;
  PointwiseRun& operator=(const PointwiseRun&) = delete;
  // Computes elements [first, first + count) of the output. Fastest if `first` is a multiple of
  // kPointwiseStep. `rows`, if set, are the elements of input 0 in this range, in the dtype that is
  // computed in.
  void apply(int64_t first, int64_t count, const void* rows = nullptr) const;
  // Computes the same range and writes it to `to`.
  void apply_to(void* to, int64_t first, int64_t count, const void* rows = nullptr) const;

  static constexpr int64_t kPatternBytes = 32 << 10;

 private:
  template <class T>
  class Segments;

  template <class T>
  void repeat_patterns();
  template <class T, class S>
  void repeat_pattern(size_t k, const S* x);
  bool single_segment(int64_t first) const;
  void run_precompiled(int64_t first, int64_t count, void* to, const void* rows) const;

  const PointwisePlan& plan_;
  const void* inputs_[kMaxScalarRegisters];  // in the order of PointwisePlan::inputs_
  void* out_;
  alignas(64) std::byte patterns_[kPatternBytes];
};

}  // namespace tessera
