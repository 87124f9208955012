#include "tessera/engine/pointwise_run.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "tessera/engine/half_numbers.h"
#include "tessera/engine/pointwise_precompiled.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/integers.h"

namespace tessera {

namespace {

// Periods are repeated to this length, so that the segments between their ends are long.
constexpr int64_t kPatternLength = 512, kLongestPattern = 1024;
constexpr int64_t kNoPeriod = int64_t{1} << 60;
constexpr int64_t kShortestPeriod = 64;  // gathering is cheaper than a shorter segment

// Returns the length of a pattern: whole periods, and whole cache lines if that stays short.
int64_t pattern_length(int64_t period, int64_t total) {
  constexpr int64_t kLine = 16;
  const int64_t repeats = std::min((kPatternLength + period - 1) / period, total / period + 1);
  const int64_t aligned = round_up(repeats, kLine / std::gcd(period, kLine));
  return period * (period * aligned <= kLongestPattern ? aligned : repeats);
}

// Fills y with repetitions of x[0], .., x[period - 1].
template <class S, class T>
void repeat(const S* x, int64_t period, int64_t count, T* y) {
  int64_t done = std::min(period, count);
  std::copy_n(x, done, y);
  for (int64_t n; done < count; done += n) {
    n = std::min(done, count - done);
    std::copy_n(y, n, y + done);
  }
}

// Fills y with x[first], x[first + 1], ... as broadcast.
template <class S, class T>
void gather(const S* x, const Broadcast& broadcast, int64_t first, int64_t count, T* y) {
  const auto [repeat, period] = broadcast;
  int64_t at = first / repeat % period, inside = first % repeat;
  for (int64_t i = 0; i < count;) {
    if (repeat == 1) {
      y[i++] = x[at];
    } else {
      const int64_t end = std::min(i + repeat - inside, count);
      for (; i < end; ++i) y[i] = x[at];
      inside = 0;
    }
    if (++at == period) at = 0;
  }
}

// Calls fn with the input as an array of the type that it is stored in.
template <class T, class F>
void visit_stored(DType stored, const void* x, F&& fn) {
  if (stored == DType::bf16)
    fn(static_cast<const bfloat16*>(x));
  else if (stored == DType::f16)
    fn(static_cast<const float16*>(x));
  else
    fn(static_cast<const T*>(x));
}

struct Segment {
  const void* const* in;
  const PointwiseAccess* access;
  const PointwiseNumbers* numbers;
  PointwiseNumbers result;
  int64_t phase, period;
};
constexpr PointwiseNumbers kFloat32[kMaxScalarRegisters] = {};

int64_t bytes_of(PointwiseNumbers numbers) {
  return numbers == PointwiseNumbers::bf16 ? sizeof(bfloat16) : sizeof(float);
}

// Computes the n < step elements after the whole steps: padded, so that the same code computes all
// elements. Of two NaNs the first operand gives the bits, and the compiler chooses the order.
void run_padded(PrecompiledCode::Steps steps, int64_t step, const Segment& from, size_t inputs,
                int64_t n, void* out) {
  alignas(64) std::byte rest[kMaxScalarRegisters + 1][kPointwiseStep * sizeof(float)];
  const void* in[kMaxScalarRegisters];
  int64_t mask[kMaxScalarRegisters];
  for (size_t k = 0; k < inputs; ++k) {
    const auto size = static_cast<size_t>(bytes_of(from.numbers[k]));
    std::memcpy(rest[k], from.in[k], static_cast<size_t>(n) * size);
    std::memset(rest[k] + static_cast<size_t>(n) * size, 0, static_cast<size_t>(step - n) * size);
    in[k] = rest[k], mask[k] = -1;
  }
  std::byte* const y = rest[kMaxScalarRegisters];
  steps(in, mask, from.numbers, from.result, step, y);
  std::memcpy(out, y, static_cast<size_t>(n * bytes_of(from.result)));
}

// Computes n elements with compiled code; `out` may be an input with linear access.
void run_compiled(const PrecompiledCode& code, size_t inputs, bool half, const Segment& from,
                  int64_t n, void* out) {
  int64_t mask[kMaxScalarRegisters];  // 0 for broadcast inputs
  auto steps = half ? code.half : code.linear;
  for (size_t k = 0; k < inputs; ++k) {
    mask[k] = from.access[k] == PointwiseAccess::broadcast ? 0 : -1;
    if (mask[k] == 0 && !half) steps = code.masked;
  }
  const int64_t step = half ? code.half_step : code.step;
  int64_t phase = from.phase;
  for (int64_t done = 0; done < n;) {  // a part lies within one period
    const int64_t part = std::min(round_up(from.period - phase, kPointwiseStep), n - done);
    const int64_t at[] = {done, phase, 0};  // for each PointwiseAccess
    const void* in[kMaxScalarRegisters];
    for (size_t k = 0; k < inputs; ++k)
      in[k] = static_cast<const std::byte*>(from.in[k]) +
              at[static_cast<int>(from.access[k])] * bytes_of(from.numbers[k]);
    auto* const to = static_cast<std::byte*>(out) + done * bytes_of(from.result);
    const int64_t i = steps(in, mask, from.numbers, from.result, part, to);
    if (i < part) {
      for (size_t k = 0; k < inputs; ++k)
        in[k] = static_cast<const std::byte*>(in[k]) + (i & mask[k]) * bytes_of(from.numbers[k]);
      run_padded(steps, step, {in, from.access, from.numbers, from.result, 0, 0}, inputs, part - i,
                 to + i * bytes_of(from.result));
    }
    done += part, phase += part - from.period;
  }
}

}  // namespace

PointwisePlan::PointwisePlan(const ScalarProgram& given, DType dtype,
                             std::span<const Broadcast> broadcasts, int64_t total,
                             const PointwiseOptions& options)
    : dtype_(dtype), result_(options.result.value_or(dtype)) {
  const ScalarProgram program = without_outer_roundings(given, broadcasts, total, options);
  if (program.registers() > kMaxScalarRegisters)
    throw InternalError("a scalar program has more registers than kernels hold");
  PrecompiledMatch match;
  if (options.code == PointwiseCode::automatic && dtype == DType::f32) {
    match = precompiled_program(program);
    if (match.program < 0) match = precompiled_program(program, Constants::inputs);
  }
  if (match.program >= 0)
    compiled_ = &TESSERA_SELECT_MICROKERNELS(pointwise_microkernels).precompiled[match.program];
  if (!is_precompiled()) interpret(program);
  inputs_.resize(static_cast<size_t>(is_precompiled() ? match.count : program.inputs));
  for (const bool constants : {true, false})  // constants first: the patterns have space for them
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const int source = is_precompiled() ? match.inputs[k] : static_cast<int>(k);
      if ((source >= program.inputs) != constants) continue;
      inputs_[k] =
          constants
              ? constant_input(program, source)
              : prepare_input({.read = round_inputs_ >> source & 1 ? Read::rounded : Read::full,
                               .source = static_cast<uint8_t>(source),
                               .stored = options.inputs.empty() ? dtype : options.inputs[source],
                               .broadcast = broadcasts[source]},
                              total);
    }
  single_segment_ = is_precompiled() && periods_.size() <= 1;
  for (const Input& input : inputs_)
    single_segment_ = single_segment_ && input.read != Read::gathered;
  if (!single_segment_ || !(any_half(DType::bf16) || any_half(DType::f16))) return;
  single_segment_ = takes_half_ = !any_half(DType::f16) && compiled_->half != nullptr;
}

bool PointwisePlan::any_half(DType of) const {
  bool any = result_ == of || rounded_ == of || (round_inputs_ != 0 && round_inputs_to_ == of);
  for (const Input& input : inputs_)
    any = any || (input.read == Read::converted && input.stored == of);
  return any;
}

// Returns the program without the roundings to 16 bits that are done block by block: of the result,
// and of inputs that are read only rounded.
ScalarProgram PointwisePlan::without_outer_roundings(const ScalarProgram& p,
                                                     std::span<const Broadcast> broadcasts,
                                                     int64_t total,
                                                     const PointwiseOptions& options) {
  if (p.registers() > kMaxScalarRegisters) return p;
  const auto rounds_to = [&](ScalarOp op) {
    return std::ranges::any_of(p.code, [&](const Instruction& in) { return in.op == op; });
  };
  const bool bf16 = rounds_to(ScalarOp::bfloat16), f16 = rounds_to(ScalarOp::float16);
  if ((bf16 == f16 && !rounds_to(ScalarOp::float32)) || (bf16 && f16)) return p;
  const ScalarOp op = f16 ? ScalarOp::float16 : ScalarOp::bfloat16;
  const DType type = f16 ? DType::f16 : DType::bf16;
  const bool last = p.code.back().op == op;
  if (last && result_ != type) rounded_ = type;
  bool numbers[kMaxScalarRegisters] = {};
  for (size_t k = 0; k < options.inputs.size(); ++k) numbers[k] = options.inputs[k] == type;
  // An input that is read only rounded has numbers of 16 bits for the rest of the program.
  for (int k = 0; k < p.inputs; ++k) {
    const auto [repeat, period] = broadcasts[k];
    const bool wide = options.inputs.empty() || !is_half(options.inputs[k]);
    bool only = wide && repeat == 1 && period >= total, read = false;
    for (const Instruction& in : p.code)
      for (int o = 0; o < operand_count(in.op); ++o)
        if (in.operand(o) == k) read = true, only = only && in.op == op;
    if (only && read) numbers[k] = true, round_inputs_ |= 1u << k, round_inputs_to_ = type;
  }
  auto needed = with_needed_roundings(p, last ? p.code.back().a : p.result(), type, numbers,
                                      last || result_ == type);
  if (needed) return *std::move(needed);
  rounded_ = DType::f32, round_inputs_ = 0;
  return p;
}

// Decides how an input is read.
PointwisePlan::Input PointwisePlan::prepare_input(Input input, int64_t total) {
  const auto [repeat, period] = input.broadcast;
  if (repeat == 1 && period >= total) {
    if (is_half(input.stored)) input.read = Read::converted;
    return input;  // or rounded
  }
  input.read = Read::gathered;
  if (period == 1) {
    // A block of one value is filled once and read for all elements.
    input.broadcast.repeat = std::max<int64_t>(total, 1);
    if (is_precompiled() && take_pattern(kPointwiseStep, input)) input.read = Read::scalar;
    return input;
  }
  if (repeat != 1) return input;
  const int64_t length = pattern_length(period, total);
  const bool in_steps = period % kPointwiseStep == 0 && period >= kPatternLength;
  if (!in_steps && length <= kLongestPattern && take_pattern(length + kPointwiseStep, input)) {
    input.read = Read::tiled;
    input.period = period_index({length, true});
  } else if (period >= kShortestPeriod && !is_half(input.stored)) {
    input.read = Read::cyclic;
    input.period = period_index({period, false});
  }
  return input;
}

PointwisePlan::Input PointwisePlan::constant_input(const ScalarProgram& program, int source) {
  Input input;
  input.read = Read::scalar;
  input.source = kConstant;
  input.value = program.code[source - program.inputs].value;
  take_pattern(kPointwiseStep, input);
  return input;
}

bool PointwisePlan::take_pattern(int64_t length, Input& input) {
  const int64_t end = patterns_ + round_up(length, kPointwiseStep);
  if (end * static_cast<int64_t>(size_of(dtype_)) > PointwiseRun::kPatternBytes) return false;
  input.pattern = patterns_;
  patterns_ = end;
  return true;
}

uint8_t PointwisePlan::period_index(const Period& wanted) {
  const auto found = std::ranges::find(periods_, wanted);
  const auto at = static_cast<uint8_t>(found - periods_.begin());
  if (found == periods_.end()) periods_.push_back(wanted);
  return at;
}

// Assigns blocks to registers. A block is reused after its last use; those of constants are kept.
void PointwisePlan::interpret(const ScalarProgram& program) {
  const int count = static_cast<int>(program.code.size());
  std::vector<int> last_read(static_cast<size_t>(program.registers()), -1);
  for (int j = 0; j < count; ++j) {
    const Instruction& in = program.code[j];
    for (int k = 0; k < operand_count(in.op); ++k) last_read[in.operand(k)] = j;
  }
  std::vector<uint8_t> place(last_read.size()), free;
  for (int k = 0; k < program.inputs; ++k) place[k] = static_cast<uint8_t>(k);
  for (int j = 0; j < count; ++j) {
    const Instruction& in = program.code[j];
    const bool constant = in.op == ScalarOp::constant && j + 1 < count;
    const auto of = [&](int k) {
      return k < operand_count(in.op) ? place[in.operand(k)] : uint8_t{0};
    };
    InterpretedStep step{in.op, of(0), of(1), of(2), 0, in.value};
    for (int r = program.inputs; r < program.inputs + j; ++r)
      if (last_read[r] == j && program.code[r - program.inputs].op != ScalarOp::constant)
        free.push_back(static_cast<uint8_t>(place[r] - kMaxScalarRegisters));
    if (constant || free.empty()) {
      step.to = static_cast<uint8_t>(blocks_++);
    } else {
      step.to = free.back();
      free.pop_back();
    }
    place[program.inputs + j] = static_cast<uint8_t>(kMaxScalarRegisters + step.to);
    if (constant)
      constants_.push_back({step.to, in.value});
    else
      steps_.push_back(step);
  }
}

PointwiseRun::PointwiseRun(const PointwisePlan& plan, const void* const* inputs, void* out)
    : plan_(plan), out_(out) {
  for (size_t k = 0; k < plan.inputs_.size(); ++k)
    if (const uint8_t source = plan.inputs_[k].source; source != PointwisePlan::kConstant)
      inputs_[k] = inputs[source];
  if (plan.patterns_ == 0) return;
  if (plan.dtype_ == DType::f32)
    repeat_patterns<float>();
  else
    repeat_patterns<double>();
}

template <class T>
void PointwiseRun::repeat_patterns() {
  for (size_t k = 0; k < plan_.inputs_.size(); ++k)
    visit_stored<T>(plan_.inputs_[k].stored, inputs_[k],
                    [&](const auto* x) { repeat_pattern<T>(k, x); });
}

template <class T, class S>
void PointwiseRun::repeat_pattern(size_t k, const S* x) {
  const PointwisePlan::Input& input = plan_.inputs_[k];
  T* pattern = reinterpret_cast<T*>(patterns_) + input.pattern;
  if (input.source == PointwisePlan::kConstant)
    std::fill_n(pattern, kPointwiseStep, static_cast<T>(input.value));
  else if (input.read == PointwisePlan::Read::scalar)
    std::fill_n(pattern, kPointwiseStep, static_cast<T>(x[0]));
  else if (input.read == PointwisePlan::Read::tiled)
    repeat(x, input.broadcast.period, plan_.periods_[input.period].period + kPointwiseStep,
           pattern);
  else
    return;
  inputs_[k] = pattern;
}

// An unpadded period is read in one segment only if it and `first` are multiples of kPointwiseStep.
bool PointwiseRun::single_segment(int64_t first) const {
  if (!plan_.single_segment_ || plan_.periods_.empty() || plan_.periods_[0].padded)
    return plan_.single_segment_;
  return plan_.periods_[0].period % kPointwiseStep == 0 && first % kPointwiseStep == 0;
}

void PointwiseRun::run_precompiled(int64_t first, int64_t count, void* to, const void* rows) const {
  using Read = PointwisePlan::Read;
  const void* in[kMaxScalarRegisters];
  PointwiseAccess access[kMaxScalarRegisters];
  PointwiseNumbers numbers[kMaxScalarRegisters];
  for (size_t k = 0; k < plan_.inputs_.size(); ++k) {
    const PointwisePlan::Input& input = plan_.inputs_[k];
    const Read read = input.read;
    numbers[k] = read == Read::converted ? PointwiseNumbers::bf16
                 : read == Read::rounded ? PointwiseNumbers::rounded
                                         : PointwiseNumbers::f32;
    access[k] = read == Read::scalar                          ? PointwiseAccess::broadcast
                : read == Read::cyclic || read == Read::tiled ? PointwiseAccess::cyclic
                                                              : PointwiseAccess::linear;
    const int64_t at = access[k] == PointwiseAccess::linear ? first : 0;
    const auto size = static_cast<int64_t>(size_of(input.stored));
    in[k] = static_cast<const std::byte*>(inputs_[k]) + at * size;
    if (rows != nullptr && input.source == 0) in[k] = rows;
  }
  const int64_t period = plan_.periods_.empty() ? kNoPeriod : plan_.periods_[0].period;
  const auto result = plan_.result_ == DType::bf16    ? PointwiseNumbers::bf16
                      : plan_.rounded_ == DType::bf16 ? PointwiseNumbers::rounded
                                                      : PointwiseNumbers::f32;
  run_compiled(*plan_.compiled_, plan_.inputs_.size(), plan_.takes_half_,
               {in, access, numbers, result, first % period, period}, count, to);
}

// Cuts a range into segments in which each input is contiguous or one value.
template <class T>
class PointwiseRun::Segments {
 public:
  Segments(const PointwiseRun& run, int64_t first, int64_t count, void* to, const void* rows)
      : run_(run),
        plan_(run.plan_),
        rows_(static_cast<const T*>(rows)),
        first_(first),
        end_(first + count),
        longest_(count),
        out_(static_cast<std::byte*>(to)) {
    for (size_t g = 0; g < plan_.periods_.size(); ++g) phase_[g] = first % plan_.periods_[g].period;
    int block = plan_.blocks_;
    for (size_t k = 0; k < plan_.inputs_.size(); ++k) {
      access_[k] = plan_.inputs_[k].read == Read::scalar ? PointwiseAccess::broadcast
                                                         : PointwiseAccess::linear;
      if (!PointwisePlan::fills_block(plan_.inputs_[k].read)) continue;
      gathered_[k] = blocks_[block++], held_[k] = -1;
      longest_ = std::min(longest_, kPointwiseBlock<T>);
    }
    if (is_half(plan_.result_) || is_half(plan_.rounded_))
      longest_ = std::min(longest_, kPointwiseBlock<T>);
    for (const auto& [at, value] : plan_.constants_)
      std::fill_n(blocks_[at], std::min(count, kPointwiseBlock<T>), static_cast<T>(value));
  }

  void run() {
    const auto interpret = microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(pointwise_microkernels));
    const InterpretedProgram program{plan_.steps_.data(), static_cast<int>(plan_.steps_.size()),
                                     static_cast<int>(plan_.inputs_.size()), plan_.blocks_};
    while (first_ < end_) {
      const int64_t n = length();
      for (size_t k = 0; k < plan_.inputs_.size(); ++k) seek(k, n);
      T* y = is_half(plan_.result_) ? unrounded_ : reinterpret_cast<T*>(out_);
      const T* values = y;
      if constexpr (std::is_same_v<T, float>)
        if (plan_.is_precompiled()) {
          const void* in[kMaxScalarRegisters];
          std::copy_n(in_, plan_.inputs_.size(), in);
          run_compiled(*plan_.compiled_, plan_.inputs_.size(), false,
                       {in, access_, kFloat32, PointwiseNumbers::f32, 0, kNoPeriod}, n, y);
        }
      if (plan_.only_rounds())
        values = in_[0];
      else if (!plan_.is_precompiled())
        interpret(program, blocks_, in_, n, y);
      if constexpr (std::is_same_v<T, float>) finish(values, n);
      move_on(n);
    }
  }

 private:
  using Read = PointwisePlan::Read;

  // Rounds y to the output, of which it may be the part in memory.
  void finish(const float* y, int64_t n) {
    if (is_half(plan_.rounded_)) {
      float* to = is_half(plan_.result_) ? unrounded_ : reinterpret_cast<float*>(out_);
      round_to_half(plan_.rounded_, y, n, to);
      y = to;
    }
    if (is_half(plan_.result_)) narrow_to_half(plan_.result_, y, n, out_);
  }

  int64_t length() const {
    int64_t n = end_ - first_;
    if (is_half(plan_.result_) || is_half(plan_.rounded_)) n = std::min(n, longest_);
    for (size_t g = 0; g < plan_.periods_.size(); ++g) {
      const auto [period, padded] = plan_.periods_[g];
      const int64_t left = period - phase_[g];
      n = std::min(n, padded ? round_up(left, kPointwiseStep) : left);
    }
    for (size_t k = 0; k < plan_.inputs_.size(); ++k) {
      const PointwisePlan::Input& input = plan_.inputs_[k];
      if (input.read == Read::converted || input.read == Read::rounded) n = std::min(n, longest_);
      if (input.read != Read::gathered) continue;
      const int64_t run = input.broadcast.repeat - first_ % input.broadcast.repeat;
      n = std::min(n, plan_.is_precompiled() && run >= kShortestPeriod ? run : longest_);
    }
    return n;
  }

  // Sets the address of input k for the next n elements.
  void seek(size_t k, int64_t n) {
    const PointwisePlan::Input& input = plan_.inputs_[k];
    if (input.read == Read::gathered)
      return visit_stored<T>(input.stored, run_.inputs_[k], [&](const auto* x) { fill(k, x, n); });
    if constexpr (std::is_same_v<T, float>)
      if (input.read == Read::converted || input.read == Read::rounded) return convert(k, n);
    if (input.read == Read::full) return void(in_[k] = own_elements(k));
    const T* x = static_cast<const T*>(run_.inputs_[k]);
    in_[k] = x + (input.read == Read::scalar ? 0 : phase_[input.period]);
  }

  // Returns the elements of a full-size input from first_ on.
  const T* own_elements(size_t k) const {
    if (rows_ != nullptr && plan_.inputs_[k].source == 0) return rows_;
    return static_cast<const T*>(run_.inputs_[k]) + first_;
  }

  void convert(size_t k, int64_t n) {
    const PointwisePlan::Input& input = plan_.inputs_[k];
    if (input.read == Read::converted)
      widen_half(input.stored, run_.inputs_[k], first_, n, gathered_[k]);
    else
      round_to_half(plan_.round_inputs_to_, own_elements(k), n, gathered_[k]);
    in_[k] = gathered_[k];
  }

  template <class S>
  void fill(size_t k, const S* x, int64_t n) {
    const auto [repeat, period] = plan_.inputs_[k].broadcast;
    const int64_t value = first_ / repeat;
    const bool one_value = first_ + n <= (value + 1) * repeat;
    if (!one_value)
      gather(x, plan_.inputs_[k].broadcast, first_, n, gathered_[k]);
    else if (value != held_[k])
      std::fill_n(gathered_[k], plan_.is_precompiled() ? kPointwiseStep : longest_,
                  static_cast<T>(x[value % period]));
    held_[k] = one_value ? value : -1;
    access_[k] =
        one_value && plan_.is_precompiled() ? PointwiseAccess::broadcast : PointwiseAccess::linear;
    in_[k] = gathered_[k];
  }

  void move_on(int64_t n) {
    first_ += n, out_ += n * static_cast<int64_t>(size_of(plan_.result_));
    if (rows_ != nullptr) rows_ += n;
    for (size_t g = 0; g < plan_.periods_.size(); ++g) {
      phase_[g] += n;
      if (phase_[g] >= plan_.periods_[g].period) phase_[g] -= plan_.periods_[g].period;
    }
  }

  const PointwiseRun& run_;
  const PointwisePlan& plan_;
  const T* rows_;  // elements of input 0 from first_ on, if not in memory at its index
  int64_t first_, end_, longest_;
  std::byte* out_;                      // element first_
  int64_t phase_[kMaxScalarRegisters];  // for each period
  const T* in_[kMaxScalarRegisters];
  PointwiseAccess access_[kMaxScalarRegisters];
  T* gathered_[kMaxScalarRegisters];
  int64_t held_[kMaxScalarRegisters];  // index of the value that fills the block, or -1
  alignas(
      64) T blocks_[kMaxScalarRegisters][kPointwiseBlock<T>];  // the interpreter's, then gathered
  alignas(64) T unrounded_[kPointwiseBlock<T>];                // the result, if it has 16 bits
};

void PointwiseRun::apply(int64_t first, int64_t count, const void* rows) const {
  apply_to(static_cast<char*>(out_) + first * static_cast<int64_t>(size_of(plan_.result_)), first,
           count, rows);
}

void PointwiseRun::apply_to(void* to, int64_t first, int64_t count, const void* rows) const {
  if (single_segment(first)) return run_precompiled(first, count, to, rows);
  if (plan_.dtype_ == DType::f32)
    Segments<float>(*this, first, count, to, rows).run();
  else
    Segments<double>(*this, first, count, to, rows).run();
}

std::optional<ScalarProgram> with_needed_roundings(const ScalarProgram& p, int result, DType type,
                                                   const bool* is_half, bool rounded) {
  const NeededRoundings needed(p.code.data(), static_cast<int>(p.code.size()), p.inputs, result,
                               type == DType::f16 ? ScalarOp::float16 : ScalarOp::bfloat16, is_half,
                               rounded);
  if (needed.result == 0) return ScalarProgram{p.inputs, {}};
  if (needed.result < p.inputs) return std::nullopt;
  return live_part({p.inputs, {needed.code, needed.code + p.code.size()}}, needed.result);
}

PrecompiledMatch precompiled_program(const ScalarProgram& program, Constants constants) {
  if (program.code.empty() || program.registers() > kMaxScalarRegisters) return {};
  const CanonicalForm form(program.code.data(), program.inputs, program.result(), constants);
  const auto* found = std::ranges::find(kPrecompiledPrograms, form.program);
  if (!form.fits || found == kPrecompiledPrograms.end()) return {};
  PrecompiledMatch match{.program = static_cast<int>(found - kPrecompiledPrograms.begin()),
                         .count = form.program.inputs};
  std::copy_n(form.source, match.count, match.inputs);
  return match;
}

}  // namespace tessera
