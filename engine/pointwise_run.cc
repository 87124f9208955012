#include "tessera/engine/pointwise_run.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Periods are repeated to this length, so that the stretches between their ends are long.
constexpr int64_t kPatternLength = 512, kLongestPattern = 1024;
// Patterns are continued by this much, so that stretches end at multiples of it: no vector is cut.
constexpr int64_t kSlack = 64;
constexpr int64_t kShortestRing = 64;  // a shorter stretch costs more than to gather

int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// How long a pattern is: repetitions of the period, in whole lines of the cache where that is short.
int64_t pattern_length(int64_t period, int64_t total) {
  constexpr int64_t kLine = 16;
  const int64_t repeats = std::min((kPatternLength + period - 1) / period, total / period + 1);
  const int64_t aligned = round_up(repeats, kLine / std::gcd(period, kLine));
  return period * (period * aligned <= kLongestPattern ? aligned : repeats);
}

// Fills y with x[first], x[first + 1], ... as broadcast.
template <class T>
void gather(const T* x, const Broadcast& broadcast, int64_t first, int64_t count, T* y) {
  const auto [repeat, period] = broadcast;
  int64_t at = first / repeat % period, inside = first % repeat;
  for (int64_t i = 0; i < count;) {
    const int64_t run = std::min(repeat == 1 ? period - at : repeat - inside, count - i);
    if (repeat == 1) {
      std::copy_n(x + at, run, y + i);
      at += run;
    } else {
      std::fill_n(y + i, run, x[at++]);
    }
    i += run, inside = 0;
    if (at == period) at = 0;
  }
}

}  // namespace

PointwisePlan::PointwisePlan(const ScalarProgram& program, DType dtype,
                             std::span<const Broadcast> broadcasts, int64_t total,
                             PointwiseCode code)
    : dtype_(dtype) {
  if (program.registers() > kMaxScalarRegisters)
    throw InternalError("a scalar program has more registers than kernels hold");
  const PointwiseMicrokernels& microkernels = TESSERA_SELECT_MICROKERNELS(pointwise_microkernels);
  KnownMatch match;
  if (code == PointwiseCode::automatic) match = known_program(program);
  if (match.program >= 0 && microkernels.f32.known[match.program] != nullptr)
    known_ = match.program;
  else
    interpret(program);
  for (int k = 0; k < program.inputs; ++k) {
    const int source = is_known() ? match.inputs[k] : k;
    inputs_.push_back(prepare_input(source, broadcasts[static_cast<size_t>(source)], total));
  }
}

PointwisePlan::Input PointwisePlan::prepare_input(int source, const Broadcast& broadcast,
                                                  int64_t total) {
  Input input{.source = static_cast<uint8_t>(source), .broadcast = broadcast};
  const auto [repeat, period] = broadcast;
  if (repeat == 1 && period >= total) return input;
  input.read = Read::gathered;
  // A block filled with one value serves for as long as that is read.
  if (period == 1) input.broadcast.repeat = std::max<int64_t>(total, 1);
  if (repeat != 1 || period == 1) return input;
  const int64_t element = static_cast<int64_t>(size_of(dtype_));
  const int64_t length = pattern_length(period, total), end = patterns_ + length + kSlack;
  const bool whole_rows = period >= kPatternLength && period % 16 == 0;
  if (!whole_rows && length <= kLongestPattern &&
      end * element <= PointwiseRun::kPatternBytes) {
    input.read = Read::pattern;
    input.pattern = patterns_;
    input.ring = ring({length, kSlack});
    patterns_ = round_up(end, 16);
  } else if (period >= kShortestRing) {
    input.read = Read::ring;
    input.ring = ring({period, 0});
  }
  return input;
}

uint8_t PointwisePlan::ring(const Ring& wanted) {
  const auto found = std::find(rings_.begin(), rings_.end(), wanted);
  const auto at = static_cast<uint8_t>(found - rings_.begin());
  if (found == rings_.end()) rings_.push_back(wanted);
  return at;
}

// A block is taken again once nothing reads it any more; those of constants are kept.
void PointwisePlan::interpret(const ScalarProgram& program) {
  const int count = static_cast<int>(program.code.size());
  std::vector<int> last_read(static_cast<size_t>(program.registers()), -1);
  for (int j = 0; j < count; ++j) {
    const Instruction& in = program.code[static_cast<size_t>(j)];
    const int operands = operand_count(in.op);
    if (operands > 0) last_read[in.a] = j;
    if (operands > 1) last_read[in.b] = j;
    if (operands > 2) last_read[in.c] = j;
  }
  std::vector<uint8_t> place(last_read.size()), free;
  for (int k = 0; k < program.inputs; ++k) place[static_cast<size_t>(k)] = static_cast<uint8_t>(k);
  for (int j = 0; j < count; ++j) {
    const Instruction& in = program.code[static_cast<size_t>(j)];
    const bool constant = in.op == ScalarOp::constant && j + 1 < count;
    const auto of = [&](int operand, uint8_t r) {
      return operand < operand_count(in.op) ? place[r] : uint8_t{0};
    };
    InterpretedStep step{in.op, of(0, in.a), of(1, in.b), of(2, in.c), 0, in.value};
    for (int r = program.inputs; r < program.inputs + j; ++r) {
      const auto at = static_cast<size_t>(r);
      if (last_read[at] != j || program.code[at - static_cast<size_t>(program.inputs)].op ==
                                    ScalarOp::constant)
        continue;
      free.push_back(static_cast<uint8_t>(place[at] - kMaxScalarRegisters));
    }
    if (constant || free.empty()) {
      step.to = static_cast<uint8_t>(blocks_++);
    } else {
      step.to = free.back();
      free.pop_back();
    }
    place[static_cast<size_t>(program.inputs + j)] =
        static_cast<uint8_t>(kMaxScalarRegisters + step.to);
    if (constant)
      constants_.push_back({step.to, in.value});
    else
      steps_.push_back(step);
  }
}

int64_t PointwisePlan::chunk(int64_t wanted) const {
  int64_t row = 1;
  for (const Input& input : inputs_)
    if (input.read == Read::ring || input.read == Read::pattern)
      row = std::max(row, input.broadcast.period);
  return std::max<int64_t>(wanted / row, 1) * row;
}

PointwiseRun::PointwiseRun(const PointwisePlan& plan, const void* const* inputs, void* out)
    : plan_(plan), out_(out) {
  for (size_t k = 0; k < plan.inputs_.size(); ++k) inputs_[k] = inputs[plan.inputs_[k].source];
  if (plan.patterns_ == 0) return;
  if (plan.dtype_ == DType::f32)
    repeat_patterns<float>();
  else
    repeat_patterns<double>();
}

template <class T>
void PointwiseRun::repeat_patterns() {
  T* patterns = reinterpret_cast<T*>(patterns_);
  for (size_t k = 0; k < plan_.inputs_.size(); ++k) {
    const PointwisePlan::Input& input = plan_.inputs_[k];
    if (input.read != PointwisePlan::Read::pattern) continue;
    const PointwisePlan::Ring& ring = plan_.rings_[input.ring];
    gather(static_cast<const T*>(inputs_[k]), input.broadcast, 0, ring.period + ring.slack,
           patterns + input.pattern);
    inputs_[k] = patterns + input.pattern;
  }
}

void PointwiseRun::apply(int64_t first, int64_t count) const {
  if (plan_.dtype_ == DType::f32)
    apply_to<float>(first, count);
  else
    apply_to<double>(first, count);
}

// The range is cut into stretches in which every input is read side by side.
template <class T>
void PointwiseRun::apply_to(int64_t first, int64_t count) const {
  using Read = PointwisePlan::Read;
  const auto& microkernels =
      microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(pointwise_microkernels));
  alignas(64) T blocks[kMaxScalarRegisters][kPointwiseBlock<T>];  // stay uninitialised
  const T* in[kMaxScalarRegisters];
  int64_t phase[kMaxScalarRegisters], held[kMaxScalarRegisters];  // the value that a block is full of
  const InterpretedProgram program{plan_.steps_.data(), static_cast<int>(plan_.steps_.size()),
                                   static_cast<int>(plan_.inputs_.size()), plan_.blocks_};
  for (const auto& [block, value] : plan_.constants_)
    std::fill_n(blocks[block], std::min(count, kPointwiseBlock<T>), static_cast<T>(value));
  const size_t inputs = plan_.inputs_.size(), rings = plan_.rings_.size();
  for (size_t g = 0; g < rings; ++g) phase[g] = first % plan_.rings_[g].period;
  int64_t longest = count;
  int block = plan_.blocks_;
  T* gathered[kMaxScalarRegisters];
  for (size_t k = 0; k < inputs; ++k) {
    if (plan_.inputs_[k].read != Read::gathered) continue;
    gathered[k] = blocks[block++], held[k] = -1;
    longest = std::min(longest, kPointwiseBlock<T>);
  }
  T* out = static_cast<T*>(out_) + first;
  for (const int64_t end = first + count; first < end;) {
    int64_t n = std::min(longest, end - first);
    for (size_t g = 0; g < rings; ++g) {
      const auto [period, slack] = plan_.rings_[g];
      n = std::min(n, slack == 0 ? period - phase[g] : round_up(period - phase[g], kSlack));
    }
    for (size_t k = 0; k < inputs; ++k) {
      const PointwisePlan::Input& input = plan_.inputs_[k];
      const T* x = static_cast<const T*>(inputs_[k]);
      if (input.read == Read::gathered) {
        const auto [repeat, period] = input.broadcast;
        const int64_t value = first / repeat;
        const bool one_value = first + n <= (value + 1) * repeat;
        in[k] = gathered[k];
        if (!one_value)
          gather(x, input.broadcast, first, n, gathered[k]);
        else if (value != held[k])
          std::fill_n(gathered[k], longest, x[value % period]);
        held[k] = one_value ? value : -1;
      } else {
        in[k] = x + (input.read == Read::whole ? first : phase[input.ring]);
      }
    }
    if (plan_.known_ >= 0)
      microkernels.known[plan_.known_](in, n, out);
    else
      microkernels.interpret(program, blocks, in, n, out);
    first += n, out += n;
    for (size_t g = 0; g < rings; ++g) {
      phase[g] += n;
      if (phase[g] >= plan_.rings_[g].period) phase[g] -= plan_.rings_[g].period;
    }
  }
}

}  // namespace tessera
