// Scalar programs, compiled and interpreted, have the bits of a plain loop, for all forms of inputs
// and all ranges.
#include "tessera/engine/pointwise_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/engine/pointwise_precompiled.h"

namespace tessera {
namespace {

// Computes one element: the bits of a function do not depend on the position of its element.
template <class T>
T alone(ScalarOp op, T x) {
  ScalarBuilder b(1);
  const Broadcast whole{1, 1};
  const PointwisePlan plan(b.build(b.push(op, b.in(0))),
                           sizeof(T) == sizeof(float) ? DType::f32 : DType::f64,
                           std::span(&whole, 1), 1);
  const void* const in = &x;
  T y = 0;
  PointwiseRun(plan, &in, &y).apply(0, 1);
  return y;
}

template <class T>
T evaluate(const Instruction& in, T a, T b, T c) {
  switch (in.op) {
    case ScalarOp::constant:
      return static_cast<T>(in.value);
    case ScalarOp::add:
      return a + b;
    case ScalarOp::sub:
      return a - b;
    case ScalarOp::mul:
      return a * b;
    case ScalarOp::div:
      return a / b;
    case ScalarOp::max:
      return std::isnan(a) ? a : std::isnan(b) ? b : a <= b ? b : a;
    case ScalarOp::min:
      return std::isnan(a) ? a : std::isnan(b) ? b : a >= b ? b : a;
    case ScalarOp::greater:
      return a > b ? T(1) : T(0);
    case ScalarOp::less_equal:
      return a <= b ? T(1) : T(0);
    case ScalarOp::select:
      return a != T(0) ? b : c;
    case ScalarOp::neg:
      return -a;
    case ScalarOp::abs:
      return a < T(0) ? -a : a;
    case ScalarOp::exp:
    case ScalarOp::erf:
    case ScalarOp::sigmoid:
      return alone(in.op, a);
    case ScalarOp::bfloat16:
      return static_cast<T>(static_cast<float>(bfloat16(a)));
    default:
      ADD_FAILURE() << name_of(in.op);
      return 0;
  }
}

// Returns plain numbers mixed with zeros of both signs, infinities and NaN.
template <class T>
std::vector<T> values(int64_t n, uint32_t key) {
  std::vector<T> all(static_cast<size_t>(n));
  uint32_t state = 2463534242u + key * 7919u;
  for (T& x : all) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const uint32_t kind = state % 64;
    x = kind == 0   ? T(0)
        : kind == 1 ? -T(0)
        : kind == 2 ? kInfinity
        : kind == 3 ? -kInfinity
        : kind == 4 ? std::numeric_limits<T>::quiet_NaN()
                    : static_cast<T>(state / 64 % 20011) / T(1501) - T(6);
  }
  return all;
}

template <class T>
struct Operands {
  Operands(const std::vector<Broadcast>& broadcasts, int64_t total) : broadcasts(broadcasts) {
    for (const Broadcast& b : broadcasts) {
      data.push_back(values<T>(b.repeat == 1 && b.period >= total ? total : b.period,
                               static_cast<uint32_t>(data.size())));
      pointers.push_back(data.back().data());
    }
  }
  T at(size_t k, int64_t i) const {
    return data[k][static_cast<size_t>(i / broadcasts[k].repeat % broadcasts[k].period)];
  }
  std::vector<Broadcast> broadcasts;
  std::vector<std::vector<T>> data;
  std::vector<const void*> pointers;
};

template <class T>
std::vector<T> plain(const ScalarProgram& program, const Operands<T>& in, int64_t total) {
  std::vector<T> out;
  for (int64_t i = 0; i < total; ++i) {
    T r[kMaxScalarRegisters] = {};
    for (size_t k = 0; k < in.data.size(); ++k) r[k] = in.at(k, i);
    int next = program.inputs;
    for (const Instruction& step : program.code)
      r[next++] = evaluate(step, r[step.a], r[step.b], r[step.c]);
    out.push_back(r[program.result()]);
  }
  return out;
}

// Ignores the payload of NaNs, which depends on the compiler's order of operands.
template <class T>
bool same_bits(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(T)) == 0;
}

struct Range {
  int64_t first, count;
};

template <class T>
void expect_plain(const ScalarProgram& program, const std::vector<Broadcast>& broadcasts,
                  int64_t total, const std::vector<Range>& ranges) {
  const DType dtype = sizeof(T) == sizeof(float) ? DType::f32 : DType::f64;
  const Operands<T> in(broadcasts, total);
  const std::vector<T> wanted = plain(program, in, total);
  for (const PointwiseCode code : {PointwiseCode::automatic, PointwiseCode::interpreted}) {
    const PointwisePlan plan(program, dtype, broadcasts, total, {.code = code});
    constexpr T kUntouched = 123;
    std::vector<T> out(static_cast<size_t>(total), kUntouched);
    const PointwiseRun run(plan, in.pointers.data(), out.data());
    for (const auto& [first, count] : ranges) {
      std::fill(out.begin(), out.end(), kUntouched);
      run.apply(first, count);
      for (int64_t i = 0; i < total; ++i) {
        const auto at = static_cast<size_t>(i);
        const T expected = i >= first && i < first + count ? wanted[at] : kUntouched;
        ASSERT_TRUE(same_bits(out[at], expected))
            << program.text() << "\n"
            << "element " << i << " of " << first << " + " << count << " in " << total << ": "
            << out[at] << ", not " << expected << (plan.is_precompiled() ? ", compiled" : "");
      }
    }
  }
}

std::vector<ScalarProgram> programs() {
  std::vector<ScalarProgram> all;
  for (const PrecompiledProgram& known : kPrecompiledPrograms)
    all.push_back({known.inputs, {known.code, known.code + known.length}});
  return all;
}

void expect_both(const ScalarProgram& program, const std::vector<Broadcast>& forms, int64_t total,
                 const std::vector<Range>& ranges) {
  std::vector<Broadcast> broadcasts;
  for (size_t k = 0; k < static_cast<size_t>(program.inputs); ++k)
    broadcasts.push_back(forms[k % forms.size()]);
  expect_plain<float>(program, broadcasts, total, ranges);
  expect_plain<double>(program, broadcasts, total, ranges);
}

std::vector<Range> ranges_of(int64_t total) {
  std::vector<Range> all{{0, total}, {0, 0}};
  for (const int64_t first : {int64_t{1}, int64_t{37}, int64_t{64}, total / 3})
    for (const int64_t count : {int64_t{1}, int64_t{15}, int64_t{129}, total - first})
      if (first + count <= total && count > 0) all.push_back({first, count});
  return all;
}

TEST(PointwiseRun, ChannelsOfEveryWidth) {
  for (const ScalarProgram& program : programs())
    for (const int64_t c : {1, 2, 3, 6, 8, 16, 17, 24, 64, 100, 192, 257, 512, 520, 1025}) {
      const int64_t total = c * std::max<int64_t>(2, 700 / c);
      const Broadcast y{1, total}, channel{1, c};
      expect_both(program, {y, channel, channel, channel}, total, ranges_of(total));
    }
}

TEST(PointwiseRun, ValuesOfSamplesOfRowsAndOfAll) {
  for (const ScalarProgram& program : programs())
    for (const int64_t c : {1, 3, 20, 64, 300}) {
      const int64_t rows = 4, samples = 3, total = c * rows * samples;
      const Broadcast y{1, total}, channel{1, c}, one{1, 1}, row{c, rows * samples},
          sample{c * rows, samples}, middle{c, rows}, image{1, c * rows};
      expect_both(program, {y, one}, total, ranges_of(total));
      expect_both(program, {y, row, y, sample}, total, ranges_of(total));
      expect_both(program, {channel, y, one, middle, image}, total, ranges_of(total));
      expect_both(program, {y, channel, image}, total, ranges_of(total));
    }
}

// More per-channel values than a run keeps copies of.
TEST(PointwiseRun, ManyOperands) {
  ScalarBuilder b(8);
  int sum = b.in(0);
  for (int k = 1; k < 8; ++k) sum = b.add(sum, b.mul(b.in(k), b.value(k)));
  for (const int64_t c : {30, 65, 700, 1023}) {
    const int64_t total = 3 * c;
    expect_both(b.build(sum), {{1, total}, {1, c}, {1, c}, {1, c}}, total, ranges_of(total));
  }
  for (const ScalarProgram& program : programs())
    if (program.inputs == 10)
      expect_both(program, {{1, 3069}, {1, 1023}, {1, 1023}}, 3069, ranges_of(3069));
}

// The interpreter reuses blocks. Constants, an operand read late and a result in the block of its
// own operand must not be lost.
TEST(PointwiseRun, ProgramsThatAreNotCompiled) {
  ScalarBuilder b(2);
  const int sum = b.add(b.in(0), b.in(1)), two = b.value(2), twice = b.mul(sum, two);
  const int root = b.push(ScalarOp::abs, twice), less = b.push(ScalarOp::greater, two, root);
  const int chosen = b.push(ScalarOp::select, less, b.sub(twice, sum), b.div(root, two));
  const ScalarProgram program = b.build(b.add(b.mul(chosen, chosen), b.push(ScalarOp::neg, sum)));
  EXPECT_LT(precompiled_program(program).program, 0);
  for (const int64_t total : {1, 511, 513, 2000}) {
    expect_both(program, {{1, total}, {1, 1}}, total, ranges_of(total));
    expect_both(program, {{1, total}, {1, 7}}, total, ranges_of(total));
  }
  ScalarBuilder constant(1);
  expect_both(constant.build(constant.value(3)), {{1, 700}}, 700, ranges_of(700));
  expect_both({.inputs = 1, .code = {}}, {{1, 7}}, 700, ranges_of(700));
}

TEST(PointwiseRun, TheResultMayTakeThePlaceOfAnInput) {
  for (const ScalarProgram& program : programs())
    for (const PointwiseCode code : {PointwiseCode::automatic, PointwiseCode::interpreted})
      for (size_t k = 0; k < static_cast<size_t>(program.inputs); ++k) {
        constexpr int64_t kTotal = 1037;
        std::vector<Broadcast> broadcasts(static_cast<size_t>(program.inputs), {1, 17});
        broadcasts[k] = {1, kTotal};
        Operands<float> in(broadcasts, kTotal);
        const std::vector<float> wanted = plain(program, in, kTotal);
        const PointwisePlan plan(program, DType::f32, broadcasts, kTotal, {.code = code});
        PointwiseRun(plan, in.pointers.data(), in.data[k].data()).apply(0, kTotal);
        for (size_t i = 0; i < wanted.size(); ++i)
          ASSERT_TRUE(same_bits(in.data[k][i], wanted[i])) << program.text() << "\n" << i;
      }
}

// Returns `p` with its first input and its result rounded to bfloat16.
ScalarProgram rounded(const ScalarProgram& p) {
  ScalarProgram all{p.inputs, {{.op = ScalarOp::bfloat16, .a = 0}}};
  const auto moved = [&](uint8_t r) {
    return static_cast<uint8_t>(r == 0 ? p.inputs : r < p.inputs ? r : r + 1);
  };
  for (Instruction in : p.code) {
    in.a = moved(in.a), in.b = moved(in.b), in.c = moved(in.c);
    all.code.push_back(in);
  }
  all.code.push_back({.op = ScalarOp::bfloat16, .a = static_cast<uint8_t>(all.result())});
  return all;
}

// Runs a program on inputs of which all, or all but the first, are in bfloat16.
void expect_bfloat16(const ScalarProgram& program, const std::vector<Broadcast>& broadcasts,
                     int64_t total, bool first, DType result) {
  Operands<float> in(broadcasts, total);
  std::vector<std::vector<bfloat16>> halves(in.data.size());
  PointwiseOptions options{.result = result};
  for (size_t k = 0; k < in.data.size(); ++k) {
    options.inputs.push_back(k > 0 || first ? DType::bf16 : DType::f32);
    if (options.inputs[k] == DType::f32) continue;
    for (float& x : in.data[k]) {
      halves[k].push_back(bfloat16(x));
      x = halves[k].back();
    }
    in.pointers[k] = halves[k].data();
  }
  const std::vector<float> wanted = plain(program, in, total);
  const PointwisePlan plan(program, DType::f32, broadcasts, total, options);
  for (const auto& [begin, count] : ranges_of(total)) {
    std::vector<float> wide(static_cast<size_t>(total), 123);
    std::vector<bfloat16> narrow(static_cast<size_t>(total), bfloat16(123));
    void* const out = result == DType::bf16 ? static_cast<void*>(narrow.data()) : wide.data();
    PointwiseRun(plan, in.pointers.data(), out).apply(begin, count);
    for (int64_t i = 0; i < total; ++i) {
      const auto at = static_cast<size_t>(i);
      const float got = result == DType::bf16 ? static_cast<float>(narrow[at]) : wide[at];
      const bool inside = i >= begin && i < begin + count;
      const float value =
          result == DType::bf16 ? static_cast<float>(bfloat16(wanted[at])) : wanted[at];
      ASSERT_TRUE(same_bits(got, inside ? value : 123))
          << program.text() << "\n"
          << "element " << i << " of " << begin << " + " << count << " in " << total << ": " << got
          << ", not " << value << (plan.is_precompiled() ? ", compiled" : "");
    }
  }
}

// A program that rounds to one type, whose result is stored in the other.
TEST(PointwiseRun, TwoRoundingsAreDoneInTheirOrder) {
  const ScalarProgram program{1, {{.op = ScalarOp::bfloat16, .a = 0}}};
  constexpr int64_t kTotal = 700;
  const Broadcast whole{1, kTotal};
  const PointwisePlan plan(program, DType::f32, std::span(&whole, 1), kTotal,
                           {.inputs = {DType::f32}, .result = DType::f16});
  const std::vector<float> x = values<float>(kTotal, 1);
  std::vector<float16> y(x.size());
  const void* const in = x.data();
  PointwiseRun(plan, &in, y.data()).apply(0, kTotal);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(same_bits(static_cast<float>(y[i]),
                          static_cast<float>(float16(static_cast<float>(bfloat16(x[i]))))))
        << x[i];
}

TEST(PointwiseRun, NumbersOfBfloat16InMemory) {
  for (const ScalarProgram& known : programs())
    for (const int64_t c : {5, 24, 64, 130, 520}) {
      const ScalarProgram program = rounded(known);
      if (program.registers() > kMaxScalarRegisters) continue;
      const int64_t total = c * std::max<int64_t>(2, 200 / c);
      const Broadcast forms[] = {{1, total}, {1, c}, {1, 1}, {1, total}};
      std::vector<Broadcast> broadcasts;
      for (size_t k = 0; k < static_cast<size_t>(program.inputs); ++k)
        broadcasts.push_back(forms[k % 4]);
      for (const bool first : {false, true})
        for (const DType result : {DType::bf16, DType::f32})
          expect_bfloat16(program, broadcasts, total, first, result);
    }
}

// Compares floats of every magnitude, and special ones, with the function in double precision.
void expect_close(ScalarOp op, double (*function)(double), float units, float floor) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 0x3fff)
    for (const uint32_t sign : {0u, 0x80000000u}) x.push_back(std::bit_cast<float>(bits | sign));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float special : {infinity, -infinity, 88.7228f, 88.73f, -103.97f, -103.98f, -87.4f})
    x.push_back(special);
  ScalarBuilder b(1);
  const auto total = static_cast<int64_t>(x.size());
  const Broadcast whole{1, total};
  const PointwisePlan plan(b.build(b.push(op, b.in(0))), DType::f32, std::span(&whole, 1), total);
  std::vector<float> y(x.size());
  const void* const in = x.data();
  PointwiseRun(plan, &in, y.data()).apply(0, total);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = function(x[i]);
    const auto rounded = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(std::abs(rounded), infinity)) -
                        static_cast<double>(std::abs(rounded));
    if (y[i] == rounded) continue;
    ASSERT_LE(std::abs(static_cast<double>(y[i]) - exact),
              std::max(units * unit, static_cast<double>(floor)))
        << name_of(op) << " of " << x[i] << " is " << y[i] << ", not " << exact;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(alone(op, nan)));
}

TEST(PointwiseRun, FunctionsRoundWell) {
  expect_close(
      ScalarOp::exp, [](double x) { return std::exp(x); }, 1.5, 0);
  expect_close(
      ScalarOp::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 3,
      std::numeric_limits<float>::min());
  expect_close(
      ScalarOp::erf, [](double x) { return std::erf(x); }, 3, 0);
}

TEST(PrecompiledPrograms, AreFoundWhateverTheOrderOfTheirInputs) {
  for (const ScalarProgram& program : programs()) {
    const int index = precompiled_program(program).program;
    ASSERT_GE(index, 0) << program.text();
    std::vector<int> turned;
    for (int k = 0; k < program.inputs; ++k) turned.push_back((k + 1) % program.inputs);
    const ScalarProgram other = rename_inputs(program, turned, program.inputs);
    const PrecompiledMatch match = precompiled_program(other);
    ASSERT_GE(match.program, 0) << other.text();
    std::vector<Broadcast> broadcasts(static_cast<size_t>(program.inputs), {1, 5});
    broadcasts[0] = {1, 600};
    expect_plain<float>(other, broadcasts, 600, {{0, 600}});
  }
  ScalarBuilder square(1);
  EXPECT_LT(precompiled_program(square.build(square.mul(0, 0))).program, 0);
}

TEST(PrecompiledPrograms, AreFoundWhateverTheOrderOfTheirInstructions) {
  ScalarBuilder b(3);  // the second operand first, and an unused input
  const int zero = b.value(0), dy = b.in(2);
  const ScalarProgram program = b.build(b.push(ScalarOp::select, b.in(1), dy, zero));
  const PrecompiledMatch match = precompiled_program(program);
  ASSERT_GE(match.program, 0);
  EXPECT_EQ(match.count, 2);
  expect_plain<float>(program, {{1, 5}, {1, 600}, {1, 600}}, 600, {{0, 600}});
}

TEST(PrecompiledPrograms, MayTakeConstantsForInputs) {
  const auto leaky = [](stages::Scalar x) { return stages::bend(x, x, 0, 0.1); };
  const auto normed = [&](stages::Scalar x) { return leaky(stages::norm(x)); };
  for (const ScalarProgram& program : {stages::program<1>(leaky), stages::program<1>(normed)}) {
    EXPECT_LT(precompiled_program(program).program, 0);
    ASSERT_GE(precompiled_program(program, Constants::inputs).program, 0);
    for (const int64_t c : {3, 64, 1023}) {  // patterns use all their space
      std::vector<Broadcast> forms(static_cast<size_t>(program.inputs), {1, c});
      forms[0] = {1, 3 * c};
      EXPECT_TRUE(PointwisePlan(program, DType::f32, forms, 3 * c).is_precompiled());
      expect_plain<float>(program, forms, 3 * c, ranges_of(3 * c));
    }
  }
}

}  // namespace
}  // namespace tessera
