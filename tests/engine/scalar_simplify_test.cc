// Every rule of simplified(), cases without a rule, and that the bits stay the same.
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_precompiled.h"
#include "tessera/engine/scalar_program.h"
#include "tessera/engine/tensor.h"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
std::vector<T> telling_values() {
  using Limits = std::numeric_limits<T>;
  return {T(0),
          T(-0.0),
          T(1),
          T(-1),
          T(0.3),
          T(-2.7),
          T(6),
          T(7),
          Limits::max(),
          -Limits::max(),
          Limits::min(),
          -Limits::min(),
          Limits::denorm_min(),
          -Limits::denorm_min(),
          Limits::infinity(),
          -Limits::infinity(),
          Limits::quiet_NaN(),
          -Limits::quiet_NaN()};
}

// Returns the program's results for every pair (or triple) of telling values.
template <class T>
std::vector<T> results_of(const ScalarProgram& program) {
  const std::vector<T> values = telling_values<T>();
  size_t count = 1;
  for (int k = 0; k < program.inputs; ++k) count *= values.size();
  Tensors inputs;
  for (size_t k = 0, every = 1; k < static_cast<size_t>(program.inputs);
       ++k, every *= values.size()) {
    std::vector<T> column;
    for (size_t i = 0; i < count; ++i) column.push_back(values[i / every % values.size()]);
    inputs.push_back(from_vector<T>({static_cast<int64_t>(count)}, column));
  }
  return pointwise("program", program, inputs).to_vector<T>();
}

template <class T>
void expect_same_bits(const ScalarProgram& a, const ScalarProgram& b) {
  const std::vector<T> x = results_of<T>(a), y = results_of<T>(b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(std::memcmp(&x[i], &y[i], sizeof(T)), 0)
        << a.text() << " against " << b.text() << " at " << i << ": " << x[i] << ", " << y[i];
}

// Simplifies y = body(b) and expects the same bits.
template <class F>
SimplifiedProgram simplify_built(int inputs, F&& body, DType dtype = DType::f32) {
  ScalarBuilder b(inputs);
  const ScalarProgram program = b.build(body(b));
  const SimplifiedProgram shorter = simplified(program, dtype);
  if (shorter.input < 0 && dtype == DType::f32) expect_same_bits<float>(program, shorter.program);
  if (shorter.input < 0 && dtype == DType::f64) expect_same_bits<double>(program, shorter.program);
  if (shorter.input >= 0) {
    const ScalarProgram handed_on = rename_inputs({1, {}}, {shorter.input}, inputs);
    expect_same_bits<float>(program, handed_on);
    expect_same_bits<double>(program, handed_on);
  }
  return shorter;
}

// f(x, c) and f(c, x).
SimplifiedProgram with_right(ScalarOp op, double c) {
  return simplify_built(1, [&](ScalarBuilder& b) { return b.push(op, 0, b.value(c)); });
}
SimplifiedProgram with_left(ScalarOp op, double c) {
  return simplify_built(1, [&](ScalarBuilder& b) { return b.push(op, b.value(c), 0); });
}

TEST(ScalarSimplify, NeutralElementsAreDropped) {
  EXPECT_EQ(with_right(ScalarOp::mul, 1).input, 0);
  EXPECT_EQ(with_left(ScalarOp::mul, 1).input, 0);
  EXPECT_EQ(with_right(ScalarOp::div, 1).input, 0);
  EXPECT_EQ(with_right(ScalarOp::sub, 0).input, 0);
  EXPECT_EQ(with_right(ScalarOp::add, -0.0).input, 0);
  EXPECT_EQ(with_left(ScalarOp::add, -0.0).input, 0);
}

TEST(ScalarSimplify, WhatChangesTheSignOfZeroOrNanStays) {
  for (const SimplifiedProgram& left :
       {with_right(ScalarOp::add, 0), with_left(ScalarOp::add, 0), with_right(ScalarOp::sub, -0.0),
        with_left(ScalarOp::sub, 0), with_left(ScalarOp::sub, -0.0), with_right(ScalarOp::mul, 0),
        with_left(ScalarOp::div, 1), with_right(ScalarOp::mul, -1), with_right(ScalarOp::pow, 1),
        with_right(ScalarOp::max, -kInf), with_left(ScalarOp::max, -kInf)}) {
    EXPECT_FALSE(left.changed) << left.program.text();
    EXPECT_EQ(left.input, -1) << left.program.text();
  }
  const auto with_itself = [](ScalarOp op) {
    return simplify_built(1, [&](ScalarBuilder& b) { return b.push(op, 0, 0); });
  };
  EXPECT_FALSE(with_itself(ScalarOp::sub).changed);
  EXPECT_FALSE(with_itself(ScalarOp::div).changed);
  EXPECT_EQ(with_itself(ScalarOp::max).input, 0);
  EXPECT_EQ(with_itself(ScalarOp::min).input, 0);
}

TEST(ScalarSimplify, SignsThatAreTurnedTwiceAreDropped) {
  const auto both = [](ScalarOp first, ScalarOp second) {
    return simplify_built(1, [&](ScalarBuilder& b) { return b.push(second, b.push(first, 0)); });
  };
  EXPECT_EQ(both(ScalarOp::neg, ScalarOp::neg).input, 0);
  EXPECT_EQ(both(ScalarOp::abs, ScalarOp::abs).program.text(), "r1 = abs r0");
  EXPECT_FALSE(both(ScalarOp::neg, ScalarOp::abs).changed);  // abs(-0) is -0 here
}

TEST(ScalarSimplify, BoundsWithinBoundsAreOne) {
  const auto both = [](ScalarOp op, double first, double second) {
    return simplify_built(1, [&](ScalarBuilder& b) {
      return b.push(op, b.push(op, 0, b.value(first)), b.value(second));
    });
  };
  EXPECT_EQ(both(ScalarOp::max, 0, 0).program.text(), "r1 = constant 0; r2 = max r0 r1");
  EXPECT_EQ(both(ScalarOp::max, 1, -2).program.text(), "r1 = constant 1; r2 = max r0 r1");
  EXPECT_EQ(both(ScalarOp::max, -2, 1).program.text(), "r1 = constant 1; r2 = max r0 r1");
  EXPECT_EQ(both(ScalarOp::min, 6, 7).program.text(), "r1 = constant 6; r2 = min r0 r1");
  EXPECT_EQ(both(ScalarOp::min, 7, 6).program.text(), "r1 = constant 6; r2 = min r0 r1");
  EXPECT_EQ(both(ScalarOp::max, 0, -0.0).program.text(), "r1 = constant -0; r2 = max r0 r1");
  EXPECT_EQ(both(ScalarOp::max, -0.0, 0).program.text(), "r1 = constant 0; r2 = max r0 r1");
  EXPECT_FALSE(both(ScalarOp::max, std::nan(""), 0).changed);
  EXPECT_FALSE(both(ScalarOp::min, 0, std::nan("")).changed);
  const SimplifiedProgram mixed = simplify_built(1, [](ScalarBuilder& b) {
    return b.push(ScalarOp::min, b.push(ScalarOp::max, 0, b.value(0)), b.value(6));
  });
  EXPECT_FALSE(mixed.changed);
}

TEST(ScalarSimplify, ChoicesThatAreNoneAreDropped) {
  EXPECT_EQ(
      simplify_built(2, [](ScalarBuilder& b) { return b.push(ScalarOp::select, 0, 1, 1); }).input,
      1);
  const auto chosen = [](double condition) {
    return simplify_built(
        2, [&](ScalarBuilder& b) { return b.push(ScalarOp::select, b.value(condition), 0, 1); });
  };
  EXPECT_EQ(chosen(1).input, 0);
  EXPECT_EQ(chosen(std::nan("")).input, 0);
  EXPECT_EQ(chosen(0).input, 1);
  EXPECT_EQ(chosen(-0.0).input, 1);
}

TEST(ScalarSimplify, ConstantsAreComputedInTheDtype) {
  const auto third = [](ScalarBuilder& b) { return b.mul(0, b.div(b.value(1), b.value(3))); };
  const SimplifiedProgram narrow = simplify_built(1, third),
                          wide = simplify_built(1, third, DType::f64);
  ASSERT_EQ(narrow.program.code.size(), 2u);
  EXPECT_EQ(narrow.program.code[0].value, static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(wide.program.code[0].value, 1.0 / 3.0);
  // 1e30 * 1e30 overflows in float32, not in float64.
  const auto large = [](ScalarBuilder& b) {
    return b.push(ScalarOp::min, 0, b.mul(b.value(1e30), b.value(1e30)));
  };
  EXPECT_EQ(simplify_built(1, large).program.code[0].value, kInf);
  EXPECT_EQ(simplify_built(1, large, DType::f64).program.code[0].value, 1e30 * 1e30);
  // Neither NaN, whose sign depends on the processor, nor library functions are folded.
  EXPECT_FALSE(simplify_built(1, [](ScalarBuilder& b) {
                 return b.mul(0, b.div(b.value(0), b.value(0)));
               }).changed);
  EXPECT_FALSE(simplify_built(1, [](ScalarBuilder& b) {
                 return b.mul(0, b.push(ScalarOp::exp, b.value(1)));
               }).changed);
}

TEST(ScalarSimplify, APowerOfTwoIsMultipliedBy) {
  EXPECT_EQ(with_right(ScalarOp::div, 8).program.text(), "r1 = constant 0.125; r2 = mul r0 r1");
  EXPECT_EQ(with_right(ScalarOp::div, -0.5).program.text(), "r1 = constant -2; r2 = mul r0 r1");
  EXPECT_FALSE(with_right(ScalarOp::div, 3).changed);
  EXPECT_FALSE(with_right(ScalarOp::div, 0).changed);
  EXPECT_FALSE(with_right(ScalarOp::div, kInf).changed);
  EXPECT_FALSE(with_right(ScalarOp::div, 0x1p127).changed);  // 1 / c is not a normal float32
  EXPECT_TRUE(simplify_built(
                  1, [](ScalarBuilder& b) { return b.div(0, b.value(0x1p127)); }, DType::f64)
                  .changed);
}

TEST(ScalarSimplify, WhatIsComputedTwiceIsComputedOnce) {
  const SimplifiedProgram twice = simplify_built(2, [](ScalarBuilder& b) {
    const int first = b.push(ScalarOp::sigmoid, b.mul(0, b.value(2)));
    const int second = b.push(ScalarOp::sigmoid, b.mul(0, b.value(2)));
    return b.mul(b.mul(first, 1), second);
  });
  EXPECT_EQ(twice.program.operations(), 4);
  // The first of two NaN determines the bits.
  EXPECT_FALSE(
      simplify_built(2, [](ScalarBuilder& b) { return b.mul(b.add(0, 1), b.add(1, 0)); }).changed);
  // 0 and -0 are different constants.
  EXPECT_FALSE(simplify_built(1, [](ScalarBuilder& b) {
                 return b.add(b.div(0, b.value(0)), b.div(0, b.value(-0.0)));
               }).changed);
}

TEST(ScalarSimplify, WhatNobodyReadsIsDropped) {
  const ScalarProgram program{
      1, {{ScalarOp::exp, 0}, {ScalarOp::constant, 0, 0, 0, 2}, {ScalarOp::mul, 0, 2}}};
  const SimplifiedProgram shorter = simplified(program, DType::f32);
  EXPECT_TRUE(shorter.changed);
  EXPECT_EQ(shorter.program.text(), "r1 = constant 2; r2 = mul r0 r1");
}

// Otherwise their compiled code would not be found.
TEST(ScalarSimplify, PrecompiledProgramsStayAsTheyAre) {
  for (const PrecompiledProgram& known : kPrecompiledPrograms) {
    const ScalarProgram program{known.inputs, {known.code, known.code + known.length}};
    EXPECT_FALSE(simplified(program, DType::f32).changed) << program.text();
  }
}

TEST(ScalarSimplify, RandomProgramsKeepTheirBits) {
  constexpr ScalarOp kOps[] = {ScalarOp::add,     ScalarOp::sub,    ScalarOp::mul, ScalarOp::div,
                               ScalarOp::max,     ScalarOp::min,    ScalarOp::neg, ScalarOp::abs,
                               ScalarOp::greater, ScalarOp::select, ScalarOp::sqrt};
  constexpr double kConstants[] = {0, -0.0, 1, -1, 2, 0.5, 6, 0.1, 1e30, kInf};
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<int>(random() % n); };
  int changed = 0;
  for (int round = 0; round < 400; ++round) {
    ScalarBuilder b(2);
    int registers = 2;
    for (int i = 0; i < 12; ++i, ++registers) {
      if (below(3) == 0) {
        b.value(kConstants[below(std::size(kConstants))]);
        continue;
      }
      const size_t n = static_cast<size_t>(registers);
      b.push(kOps[below(std::size(kOps))], below(n), below(n), below(n));
    }
    const ScalarProgram program = b.build(registers - 1);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const SimplifiedProgram shorter = simplified(program, dtype);
      changed += shorter.changed;
      const ScalarProgram& other =
          shorter.input < 0 ? shorter.program : rename_inputs({1, {}}, {shorter.input}, 2);
      ASSERT_LE(other.operations(), program.operations() + (shorter.input > 0));
      dtype == DType::f32 ? expect_same_bits<float>(program, other)
                          : expect_same_bits<double>(program, other);
    }
  }
  EXPECT_GT(changed, 200);
}

}  // namespace
}  // namespace tessera
