// bfloat16 and float16: their numbers, and tensors and ops of them.
#include "tessera/engine/dtype.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/pointwise_simd.h"
#include "tessera/engine/structural.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

// Returns x rounded to numbers with `precision` bits, multiples of `unit` at least; `largest` and
// above become infinite.
double nearest(double x, int precision, double unit, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double step = std::max(std::ldexp(1.0, exponent - precision), unit);
  const double y = std::nearbyint(x / step) * step;  // ties to even, and exact
  return std::abs(y) > largest ? std::copysign(INFINITY, x) : std::copysign(y, x);
}
double nearest(double x, bfloat16) { return nearest(x, 8, 0x1p-133, 0x1.fep127); }
double nearest(double x, float16) { return nearest(x, 11, 0x1p-24, 65504); }

// Returns numbers of every size, with those that lie between two of H, and near those.
template <class H>
std::vector<float> floats() {
  std::vector<float> all;
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    H h;
    h.bits = static_cast<uint16_t>(bits);
    const float x = h;
    const auto u = std::bit_cast<uint32_t>(x);
    for (const uint32_t apart : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u})
      all.push_back(std::bit_cast<float>(u + apart));
  }
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += 65521)
    all.push_back(std::bit_cast<float>(static_cast<uint32_t>(u)));
  return all;
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <class H>
class Half : public testing::Test {
 public:
  static constexpr DType kType = dtype_of<H>;
};
using Types = testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(Half, Types);

TYPED_TEST(Half, NumbersAreTheNearest) {
  for (const float x : floats<TypeParam>())
    ASSERT_TRUE(same(TypeParam(x), static_cast<float>(nearest(x, TypeParam())))) << x;
}

TYPED_TEST(Half, EveryNumberSurvivesFloat32AndFloat64) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    TypeParam h;
    h.bits = static_cast<uint16_t>(bits);
    const float x = h;
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(x))));
      continue;
    }
    ASSERT_EQ(TypeParam(x).bits, bits);
    ASSERT_EQ(TypeParam(static_cast<double>(x)).bits, bits);
  }
}

// Rounding to float32 on the way would give the even neighbour.
TYPED_TEST(Half, Float64IsRoundedOnce) {
  for (const float x : {1.0f, -3.0f, 0x1p-14f, 1000.0f}) {
    TypeParam above(x);
    above.bits = static_cast<uint16_t>(above.bits + 1);
    const double middle = (static_cast<double>(x) + static_cast<double>(float{above})) / 2;
    for (const double off : {-1e-12, 0.0, 1e-12}) {
      const double exact = middle * (1 + off);
      EXPECT_EQ(static_cast<float>(TypeParam(exact)),
                static_cast<float>(nearest(exact, TypeParam())))
          << x << " " << off;
    }
  }
  EXPECT_TRUE(std::isinf(static_cast<float>(TypeParam(1e300))));
  EXPECT_EQ(static_cast<float>(TypeParam(1e-300)), 0.0f);
  EXPECT_EQ(static_cast<float>(TypeParam(int64_t{3})), 3.0f);
}

// casts run in vectors, programs round in registers
TYPED_TEST(Half, TensorsAreRoundedAsNumbersAre) {
  const std::vector<float> x = floats<TypeParam>();
  const Tensor wide = from_vector({std::ssize(x)}, x), half = cast(wide, this->kType);
  const auto got = half.template to_vector<TypeParam>();
  const auto back = cast(half, DType::f32).template to_vector<float>();
  ScalarBuilder b(1);
  const auto op = this->kType == DType::bf16 ? ScalarOp::bfloat16 : ScalarOp::float16;
  const int rounded = b.push(op, 0);
  const Tensor program = pointwise("twice", b.build(b.push(ScalarOp::float32, rounded)), {wide});
  ASSERT_EQ(program.dtype(), DType::f32);
  const auto in_registers = program.to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const float wanted = TypeParam(x[i]);
    ASSERT_TRUE(same(got[i], wanted)) << x[i];
    ASSERT_TRUE(same(back[i], wanted)) << x[i];
    ASSERT_TRUE(same(in_registers[i], wanted)) << x[i];
  }
  for (int64_t count = 0; count < 40; ++count) {  // incomplete vectors
    const std::vector<float> some(x.begin() + 16000, x.begin() + 16000 + count);
    const auto few = cast(from_vector({count}, some), this->kType).template to_vector<TypeParam>();
    for (size_t i = 0; i < few.size(); ++i) ASSERT_TRUE(same(few[i], TypeParam(some[i])));
  }
}

TYPED_TEST(Half, TensorsHaveElementsTextAndItems) {
  const Tensor x = from_vector<TypeParam>({3}, {TypeParam(1), TypeParam(-2.5f), TypeParam(0)});
  EXPECT_EQ(x.spec().bytes(), 6u);
  EXPECT_EQ(x.text(), "[   1, -2.5,    0]");
  EXPECT_EQ(x.spec().text(), std::string(name_of(this->kType)) + "[3]");
  const Tensor tenth = full({}, 0.1, this->kType);
  EXPECT_EQ(tenth.item<float>(), static_cast<float>(TypeParam(0.1)));
  Tensor one = zeros({}, this->kType);
  one.assign_scalar(3);
  EXPECT_EQ(one.item<double>(), 3);
  EXPECT_EQ(arange(4, this->kType).text(), "[0, 1, 2, 3]");
  EXPECT_EQ(cast(x, DType::i32).to_vector<int32_t>(), (std::vector<int32_t>{1, -2, 0}));
  EXPECT_EQ(greater(x, 0.5).to_vector<uint8_t>(), (std::vector<uint8_t>{1, 0, 0}));
  EXPECT_EQ(where(greater(x, 0.5), x, x * 2).text(), "[ 1, -5,  0]");
  EXPECT_EQ(reshape(x, {3, 1}).text(), "[[   1],\n [-2.5],\n [   0]]");
  EXPECT_EQ(transpose(expand(x, {2, 3})).text(), "[[   1,    1],\n [-2.5, -2.5],\n [   0,    0]]");
  EXPECT_EQ(rows(x, 1, 3).text(), "[-2.5,    0]");
}

TYPED_TEST(Half, ArithmeticRoundsOnce) {
  const Tensor x = cast(normal({1000}, 1, DType::f32), this->kType);
  const Tensor y = cast(normal({1000}, 2, DType::f32), this->kType);
  const auto a = x.template to_vector<TypeParam>(), b = y.template to_vector<TypeParam>();
  const Tensor sum = x + y, quotient = x / y;
  ASSERT_EQ(sum.dtype(), this->kType);
  const auto s = sum.template to_vector<TypeParam>(), q = quotient.template to_vector<TypeParam>();
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(s[i].bits, TypeParam(float{a[i]} + float{b[i]}).bits);
    EXPECT_EQ(q[i].bits, TypeParam(float{a[i]} / float{b[i]}).bits);
  }
}

TYPED_TEST(Half, SumsAndMeansAreComputedInFloat32) {
  const Tensor x = ones({5000}, this->kType);  // in 16 bits such a sum would end at 256 or 2048
  EXPECT_EQ(sum(x).item<float>(), static_cast<float>(TypeParam(5000)));
  EXPECT_EQ(mean(x).item<float>(), 1);
  EXPECT_EQ(sum(expand(x, {3, 5000}), {0, 1}).item<float>(), static_cast<float>(TypeParam(15000)));
  const Tensor three = arange(3, this->kType);
  EXPECT_EQ(var(three).item<float>(), 1);
  EXPECT_EQ(sum(x).dtype(), this->kType);
}

float evaluate(ScalarOp op, float a, float b, float c) {
  switch (op) {
    case ScalarOp::add:
      return a + b;
    case ScalarOp::max:
      return std::isnan(a) || std::isnan(b) ? NAN : a > b ? a : b;
    case ScalarOp::min:
      return std::isnan(a) || std::isnan(b) ? NAN : a < b ? a : b;
    case ScalarOp::greater:
      return a > b;
    case ScalarOp::select:
      return a != 0 ? b : c;
    case ScalarOp::neg:
      return -a;
    case ScalarOp::abs:
      return a < 0 ? -a : a;
    case ScalarOp::bfloat16:
      return bfloat16(a);
    case ScalarOp::float16:
      return float16(a);
    default:
      return a;
  }
}

// Kernels leave out roundings that change nothing and do others block by block.
TEST(HalfTypes, ProgramsRoundWhereTheySay) {
  constexpr ScalarOp kOps[] = {ScalarOp::add, ScalarOp::constant, ScalarOp::max,
                               ScalarOp::min, ScalarOp::greater,  ScalarOp::select,
                               ScalarOp::neg, ScalarOp::abs,      ScalarOp::float32};
  uint32_t state = 1;
  const auto random = [&](int below) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return static_cast<int>(state % static_cast<uint32_t>(below));
  };
  for (int trial = 0; trial < 1000; ++trial) {
    const DType half = trial % 2 == 0 ? DType::bf16 : DType::f16;
    const ScalarOp rounding = half == DType::bf16 ? ScalarOp::bfloat16 : ScalarOp::float16;
    Tensors inputs;  // whole or a row, 16 bits or float32, often rounded to 0
    for (int k = 0; k < 3; ++k) {
      const double scale = random(2) == 0 ? 1 : half == DType::bf16 ? 0x1p-133 : 0x1p-24;
      const Tensor x = normal(k == 0 || random(2) == 0 ? Shape{37, 24} : Shape{24},
                              static_cast<uint64_t>(random(1000)), DType::f32) *
                       scale;
      constexpr DType kTypes[] = {DType::bf16, DType::f16, DType::f32, DType::f32};
      inputs.push_back(cast(x, kTypes[random(4)]));
    }
    ScalarBuilder b(3);
    int last = 0;
    for (int i = 0, count = 3 + random(10); i < count; ++i) {
      const ScalarOp op = random(3) == 0 ? rounding : kOps[random(9)];
      const int registers = 3 + i;
      constexpr double kConstants[] = {0, -0.0, 1, -2.5};
      last = op == ScalarOp::constant
                 ? b.value(kConstants[random(4)])
                 : b.push(op, random(3) == 0 ? random(registers) : registers - 1,
                          random(2) == 0 ? registers - 1 : random(registers), random(registers));
    }
    ScalarProgram program = b.build(last);
    const Tensor made =
        pointwise("random", program, inputs, {}, random(2) == 0 ? half : DType::f32);
    program = with_result(program, made.dtype());
    std::vector<std::vector<float>> x;
    for (const Tensor& input : inputs)
      x.push_back(cast(expand(input, {37, 24}), DType::f32).to_vector<float>());
    const auto found = cast(made, DType::f32).to_vector<float>();
    for (size_t i = 0; i < found.size(); ++i) {
      std::vector<float> r = {x[0][i], x[1][i], x[2][i]};
      for (const Instruction& in : program.code)
        r.push_back(in.op == ScalarOp::constant ? static_cast<float>(in.value)
                                                : evaluate(in.op, r[in.a], r[in.b], r[in.c]));
      const float wanted = r[static_cast<size_t>(program.result())];
      ASSERT_TRUE(same(found[i], wanted))
          << "trial " << trial << ": " << program.text() << ": " << found[i] << ", not " << wanted;
    }
  }
}

TEST(HalfTypes, MixturesPromoteToFloat32) {
  const Tensor b = ones({2}, DType::bf16), h = ones({2}, DType::f16), f = ones({2});
  EXPECT_EQ((b + b).dtype(), DType::bf16);
  EXPECT_EQ((h * h).dtype(), DType::f16);
  EXPECT_EQ((b + h).dtype(), DType::f32);
  EXPECT_EQ((f + b).dtype(), DType::f32);
  EXPECT_EQ((h / f).dtype(), DType::f32);
  EXPECT_EQ((b + 0.5).dtype(), DType::bf16);
  EXPECT_NE(message_of([&] { b + ones({2}, DType::f64); }).find("not mix float64"),
            std::string::npos);
  EXPECT_NE(message_of([&] { b + ones({2}, DType::i32); }).find("floating point"),
            std::string::npos);
}

TEST(HalfTypes, GradientsHaveTheDtypeOfTheirTensor) {
  const Tensor x = requires_grad(cast(normal({4, 3}, 1, DType::f32), DType::bf16));
  const Tensor w = requires_grad(normal({3}, 2, DType::f32));
  const Tensor y = exp(x) * cast(w, DType::bf16);
  ASSERT_EQ(y.dtype(), DType::bf16);
  const Tensors grads = gradients(sum(cast(y, DType::f32)), std::vector{x, w});
  EXPECT_EQ(grads[0].dtype(), DType::bf16);
  EXPECT_EQ(grads[1].dtype(), DType::f32);
  // d/dw: the column sums of exp(x), each rounded to bfloat16, added in float32
  const auto e = exp(x).to_vector<bfloat16>();
  const auto dw = grads[1].to_vector<float>();
  for (size_t j = 0; j < 3; ++j)
    EXPECT_NEAR(dw[j], float{e[j]} + float{e[3 + j]} + float{e[6 + j]} + float{e[9 + j]},
                0.02 * std::abs(dw[j]));
}

}  // namespace
}  // namespace tessera
