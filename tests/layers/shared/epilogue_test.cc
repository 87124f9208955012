// Which scalar programs are a BiasActivation.
#include "tessera/layers/shared/epilogue.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr ScalarOp kAdd = ScalarOp::add, kMax = ScalarOp::max, kMin = ScalarOp::min;
Instruction constant(double value) { return {.op = ScalarOp::constant, .value = value}; }
Instruction op(ScalarOp op, int a, int b) {
  return {.op = op, .a = static_cast<uint8_t>(a), .b = static_cast<uint8_t>(b)};
}

const Shape kResult = {2, 3, 3, 8};
const TensorSpec kBias{DType::f32, {8}, {}}, kWhole{DType::f32, kResult, {}};

std::optional<BiasActivationPlan> match(const Specs& extra, std::vector<Instruction> code,
                                        DType to = DType::f32) {
  return bias_activation({static_cast<int>(extra.size()) + 1, std::move(code)}, extra,
                         {DType::f32, kResult, {}}, to);
}

TEST(BiasActivation, IsFoundInEitherOrderOfSums) {
  EXPECT_EQ(match({kBias}, {op(kAdd, 0, 1)})->bias, 0);
  const auto bounded =
      match({kBias}, {op(kAdd, 1, 0), constant(0), op(kMax, 2, 3), constant(6), op(kMin, 4, 5)});
  EXPECT_TRUE(bounded && bounded->low == 0 && bounded->high == 6);
  for (const Instruction& sum : {op(kAdd, 3, 1), op(kAdd, 1, 3)}) {
    const auto residual = match({kWhole, kBias}, {op(kAdd, 0, 2), sum});
    ASSERT_TRUE(residual);
    EXPECT_TRUE(residual->bias == 1 && residual->residual == 0 && residual->residual_bias == -1);
  }
  const auto both = match({kBias, kWhole, kBias}, {op(kAdd, 0, 1), op(kAdd, 3, 2), op(kAdd, 5, 4),
                                                   constant(0), op(kMax, 6, 7)});
  EXPECT_TRUE(both && both->bias == 0 && both->residual == 1 && both->residual_bias == 2);
}

TEST(BiasActivation, KnowsBiasesWithWhichNoSumIsDenormal) {
  float bias[8] = {1, -2, 0x1p-100f, -0x1p-100f, 3, 4, 5, INFINITY};
  const Buffer buffers[] = {{bias, kBias}};
  BiasActivationPlan plan{.bias = 0, .low = 0, .high = 6};
  bfloat16 y[8];
  EXPECT_TRUE(plan.bound_to<bfloat16>(buffers, y).normal);
  plan.high = 0x1p-127f;
  EXPECT_FALSE(plan.bound_to<bfloat16>(buffers, y).normal);
  plan.high = 6;
  for (const float small : {0.0f, -0.0f, 0x1p-101f, -0x1p-149f}) {
    bias[5] = small;
    EXPECT_FALSE(plan.bound_to<bfloat16>(buffers, y).normal) << small;
  }
}

Instruction rounded(int a) { return op(ScalarOp::bfloat16, a, 0); }
const TensorSpec kHalf{DType::bf16, kResult, {}};

TEST(BiasActivation, IsFoundInBfloat16WhereSeparateOpsRound) {
  const auto find = [](const Specs& extra, std::vector<Instruction> code) {
    return match(extra, std::move(code), DType::bf16);
  };
  const auto plain = find({}, {rounded(0)});
  EXPECT_TRUE(plain && plain->bias == -1);
  const auto scaled = find({kBias, kBias}, {rounded(0), op(ScalarOp::mul, 3, 1), op(kAdd, 4, 2),
                                            rounded(5), constant(6), op(kMin, 6, 7), rounded(8)});
  EXPECT_TRUE(scaled && scaled->scale == 0 && scaled->bias == 1 && scaled->high == 6);
  const auto residual =
      find({kBias, kBias, kHalf},
           {rounded(0), op(ScalarOp::mul, 1, 4), op(kAdd, 2, 5), rounded(6), op(kAdd, 3, 7),
            rounded(8), constant(0), op(kMax, 9, 10), rounded(11)});
  EXPECT_TRUE(residual && residual->residual == 2 && residual->residual_scale == -1 &&
              residual->scale == 0 && residual->low == 0);
  const std::vector<Instruction> two = {rounded(0),  op(ScalarOp::mul, 3, 4), op(kAdd, 7, 5),
                                        rounded(8),  op(ScalarOp::mul, 6, 1), op(kAdd, 10, 2),
                                        rounded(11), op(kAdd, 9, 12),         rounded(13)};
  const auto both = find({kBias, kBias, kHalf, kBias, kBias}, two);
  EXPECT_TRUE(both && both->scale == 0 && both->bias == 1 && both->residual == 2 &&
              both->residual_scale == 3 && both->residual_bias == 4);
  EXPECT_FALSE(find({kBias, kBias, kWhole, kBias, kBias}, two));  // a residual of float32
  EXPECT_FALSE(find({kBias}, {op(kAdd, 0, 1), rounded(2)}));      // the sum is not rounded
  EXPECT_FALSE(find({kBias}, {rounded(0), op(kAdd, 1, 2)}));      // nor the result
  EXPECT_FALSE(find({kBias, kHalf}, {rounded(0), op(kAdd, 1, 3), op(kAdd, 2, 4), rounded(5)}));
  EXPECT_FALSE(find({kBias}, {rounded(0), op(kAdd, 1, 2), constant(0.3), op(kMax, 3, 4),
                              rounded(5)}));  // a bound that is not bfloat16
}

TEST(BiasActivation, IsNothingThatWouldChangeBits) {
  const auto bounded = [](ScalarOp bound, double value) {
    return match({kBias}, {op(kAdd, 0, 1), constant(value), op(bound, 2, 3)}).has_value();
  };
  EXPECT_TRUE(bounded(kMax, -1) && bounded(kMin, 1));
  EXPECT_FALSE(bounded(kMax, -0.0) || bounded(kMax, NAN) || bounded(kMin, 0) || bounded(kMin, NAN));
  EXPECT_FALSE(match({kWhole, kBias}, {op(kAdd, 0, 1), op(kAdd, 3, 2)}));  // the bias comes last
  EXPECT_FALSE(match({kWhole}, {op(kAdd, 0, 1)}));
  EXPECT_FALSE(match({kBias}, {op(ScalarOp::mul, 0, 1)}));
  EXPECT_FALSE(match({kBias}, {constant(0), op(kMax, 0, 2), op(kAdd, 3, 1)}));
  EXPECT_FALSE(match({{DType::bf16, {8}, {}}}, {op(kAdd, 0, 1)}));
  EXPECT_FALSE(match({{DType::f32, {3, 8}, {}}}, {op(kAdd, 0, 1)}));
}

}  // namespace
}  // namespace tessera
