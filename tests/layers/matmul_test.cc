#include "tessera/layers/ops/matmul.h"

#include "tessera/engine/eager.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tape.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/runtime/context.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

// Computes the definition, element by element.
std::vector<double> product(const Tensor& a, const Tensor& b, MatmulParams p) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  const int64_t m = a.shape()[p.transpose_a ? 1 : 0], k = a.shape()[p.transpose_a ? 0 : 1];
  const int64_t n = b.shape()[p.transpose_b ? 0 : 1];
  std::vector<double> z;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += x[p.transpose_a ? l * m + i : i * k + l] * y[p.transpose_b ? j * k + l : l * n + j];
      }
      z.push_back(sum);
    }
  }
  return z;
}

const MatmulParams kFlags[] = {{false, false}, {true, false}, {false, true}, {true, true}};

TESSERA_UNDER_EACH_KERNELS(Matmul);

TEST_P(Matmul, IsTheSumOfProductsUnderEveryFlag) {
  for (auto [m, n, k] : {std::array{1, 1, 1}, {5, 3, 7}, {33, 65, 130}, {1, 100, 9}}) {
    for (MatmulParams p : kFlags) {
      const Tensor a = normal(p.transpose_a ? Shape{k, m} : Shape{m, k}, 1);
      const Tensor b = normal(p.transpose_b ? Shape{n, k} : Shape{k, n}, 2);
      const Tensor y = matmul(a, b, p);
      EXPECT_EQ(y.shape(), Shape({m, n}));
      const auto got = y.to_vector<double>(), wanted = product(a, b, p);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12);
    }
  }
}

bool native() { return std::string_view(cpu_context().kernels_name()) == "native"; }

// Sums are float32 and rounded once. A float32 copy of b takes twice the bytes of b.
TEST_P(Matmul, SixteenBitsAreMultipliedAsTheyAre) {
  for (const DType half : {DType::bf16, DType::f16}) {
    const Tensor a = requires_grad(cast(normal({24, 600}, 1), half));
    const Tensor b = requires_grad(cast(normal({500, 600}, 2), half));
    Allocator& allocator = eager_allocator(a.device());
    const size_t before = allocator.statistics().live_bytes;
    allocator.reset_peak();
    const Tensor y = matmul(a, b, {.transpose_b = true});
    const size_t peak = allocator.statistics().peak_live_bytes - before;
    EXPECT_EQ(y.dtype(), half);
    const auto got = cast(y, DType::f64).to_vector<double>();
    const auto wanted = product(cast(a, DType::f64), cast(b, DType::f64), {.transpose_b = true});
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i],
                  std::abs(wanted[i]) * (half == DType::bf16 ? 4e-3 : 5e-4) + 1e-4);
    const Tensor of_all[] = {a, b};
    const Tensors grads = gradients(y, of_all, cast(normal(y.shape(), 3), half));
    EXPECT_EQ(grads[0].dtype(), half);
    EXPECT_EQ(grads[1].dtype(), half);
    if (half == DType::f16 || !native()) continue;
    EXPECT_LT(peak, 2 * b.spec().bytes());  // b is packed
  }
}

// PyTorch's values.
TEST_P(Matmul, AVectorIsARowOrAColumn) {
  const Tensor a = from_vector<double>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor v = from_vector<double>({3}, {1, -1, 2}), u = from_vector<double>({2}, {2, -3});
  const Tensor pairs = reshape(arange(0, 12, 1, DType::f64), {2, 2, 3});
  const Tensor many = reshape(arange(0, 24, 1, DType::f64), {2, 2, 3, 2});
  const auto expect = [](const Tensor& y, const Shape& shape, const std::vector<double>& wanted) {
    EXPECT_EQ(y.shape(), shape);
    expect_near(y, wanted);
  };
  expect(matmul(a, v), {2}, {5, 11});
  expect(matmul(u, a), {3}, {-10, -11, -12});
  expect(matmul(v, v), {}, {6});
  expect(matmul(pairs, v), {2, 2}, {3, 9, 15, 21});
  expect(matmul(u, pairs), {2, 3}, {-9, -10, -11, -15, -16, -17});
  expect(matmul(v, many), {2, 2, 2}, {6, 8, 18, 20, 30, 32, 42, 44});
  expect(matmul(many, u), {2, 2, 3}, {-3, -5, -7, -9, -11, -13, -15, -17, -19, -21, -23, -25});
  // The transpose flags apply to the matrix alone.
  expect(matmul(a, u, {true, true}), {3}, {-10, -11, -12});
  expect(matmul(v, a, {true, true}), {2}, {5, 11});
  EXPECT_NE(message_of([&] { matmul(a, u); }).find("3 columns, but b has 2 rows"),
            std::string::npos);
  EXPECT_NE(message_of([&] { matmul(a, scalar(1, DType::f64)); }), "no ShapeError");
  for (const auto& [x, y] : {std::pair(a, v), {u, a}, {v, v}, {pairs, v}, {u, pairs}, {many, u}})
    expect_gradients([](const Tensors& t) { return matmul(t[0], t[1]); }, {x, y});
}

TEST_P(Matmul, OfPairsIsThatOfEachPairInTheSameBits) {
  for (MatmulParams p : kFlags) {
    const Tensor a = normal(p.transpose_a ? Shape{3, 20, 7} : Shape{3, 7, 20}, 1);
    const Tensor b = normal(p.transpose_b ? Shape{3, 33, 20} : Shape{3, 20, 33}, 2);
    const auto y = matmul(a, b, p).to_vector<double>();
    for (int64_t i = 0; i < 3; ++i) {
      const auto one = [&](const Tensor& x) {
        return reshape(rows(x, i, i + 1), Shape{x.shape()[1], x.shape()[2]});
      };
      const auto wanted = matmul(one(a), one(b), p).to_vector<double>();
      EXPECT_EQ(std::vector<double>(y.begin() + i * 7 * 33, y.begin() + (i + 1) * 7 * 33), wanted);
    }
  }
}

TEST_P(Matmul, LeadingAxesAreBroadcast) {
  const Tensor a = normal({2, 1, 3, 4}, 1), b = normal({5, 4, 6}, 2), c = normal({4, 6}, 3);
  EXPECT_EQ(matmul(a, b).shape(), (Shape{2, 5, 3, 6}));
  EXPECT_EQ(matmul(a, c).shape(), (Shape{2, 1, 3, 6}));
  EXPECT_EQ(matmul(a, c, {}).to_vector<double>(),
            matmul(reshape(a, {6, 4}), c).to_vector<double>());
  EXPECT_EQ(message_of([&] {
              matmul(a, normal({3, 4, 6}, 2), {.transpose_b = true});
            }),
            "matmul: a has 4 columns, but b transposed has 6 rows (a float64[2x3x3x4], b "
            "float64[2x3x4x6])");
}

TEST_P(Matmul, GradientsUnderEveryFlag) {
  for (MatmulParams p : kFlags) {
    const Tensor a = normal(p.transpose_a ? Shape{4, 3} : Shape{3, 4}, 3);
    const Tensor b = normal(p.transpose_b ? Shape{5, 4} : Shape{4, 5}, 4);
    const auto result =
        check_gradients([&](const Tensors& x) { return matmul(x[0], x[1], p); }, {a, b});
    EXPECT_TRUE(result) << p.transpose_a << p.transpose_b << "\n" << result.report;
  }
}

TEST_P(Matmul, SameBitsWithAnyNumberOfThreads) {
  const Tensor a = normal({70, 300}, 5, DType::f32), b = normal({300, 90}, 6, DType::f32);
  std::vector<float> first;
  for (int threads : {1, 2, 3}) {
    Settings with = settings();
    with.threads = threads;
    const SettingsScope scope(with);
    const auto values = matmul(a, b).to_vector<float>();
    if (threads == 1) first = values;
    EXPECT_EQ(values, first) << threads;
  }
}

// Compares the fused op with the two separate ops.
TEST_P(Matmul, AbsorbsABiasAndAnActivationWithTheSameBits) {
  const Tensor a = normal({70, 30}, 7, DType::f32), b = normal({90, 30}, 8, DType::f32);
  const Tensor c = normal({90}, 9, DType::f32);
  OpPtr product;  // the op of matmul(), taken from the tape
  {
    const Tensor y = matmul(requires_grad(a), b, {.transpose_b = true});
    product = y.impl()->node->op;
  }
  ScalarBuilder sum(2);  // bias first: the product is input 1
  const ScalarProgram add = sum.build(sum.add(sum.in(0), sum.in(1)));
  ScalarBuilder clip(1);
  const ScalarProgram relu = clip.build(clip.push(ScalarOp::max, clip.in(0), clip.value(0)));
  const TensorSpec y = product->infer(Specs{a.spec(), b.spec()})[0];

  const auto with_bias =
      product->fuse_epilogue(add, 1, Specs{a.spec(), b.spec()}, Specs{c.spec(), y});
  ASSERT_TRUE(with_bias);
  EXPECT_EQ(with_bias->inputs, (std::vector<int>{0, 1, -1}));
  EXPECT_FALSE(with_bias->op->differentiable());
  EXPECT_FALSE(with_bias->op->is_equivalent(*product));
  const Specs in{a.spec(), b.spec(), c.spec()};
  const auto with_both = with_bias->op->fuse_epilogue(relu, 0, in, Specs{y});
  ASSERT_TRUE(with_both);
  EXPECT_EQ(with_both->inputs, (std::vector<int>{0, 1, 2}));

  const Tensor apart = pointwise("relu", relu, {bias(matmul(a, b, {.transpose_b = true}), c)});
  EXPECT_EQ(apply1(with_both->op, {a, b, c}).to_vector<float>(), apart.to_vector<float>());

  // A program that broadcasts the product to a larger tensor cannot be fused.
  const TensorSpec large{DType::f32, {2, 70, 90}, {}};
  EXPECT_FALSE(product->fuse_epilogue(add, 1, Specs{a.spec(), b.spec()}, Specs{large, y}));
}

TEST_P(Matmul, ShapesThatDoNotFitAreExplained) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  EXPECT_EQ(message_of([&] { matmul(a, b); }),
            "matmul: a has 3 columns, but b has 4 rows (a float32[2x3], b float32[4x5])");
  EXPECT_EQ(message_of([&] { matmul(a, b, {.transpose_a = true, .transpose_b = true}); }),
            "matmul: a transposed has 2 columns, but b transposed has 5 rows (a float32[2x3], b "
            "float32[4x5])");
  EXPECT_EQ(message_of([&] { matmul(zeros({}), b); }),
            "matmul: a must have 2 axes, but has 0 (a float32[], b float32[4x5])");
  EXPECT_EQ(message_of([&] {
              matmul(a, zeros({3, 2}, DType::f64));
            }),
            "matmul: a and b must have the same dtype, but have float32 and float64; use cast() (a "
            "float32[2x3], b float64[3x2])");
  EXPECT_EQ(message_of([&] {
              matmul(zeros({2, 3}, DType::i32), b);
            }),
            "matmul: a must be floating point, but is int32; use cast() (a int32[2x3], b "
            "float32[4x5])");
}

}  // namespace
}  // namespace tessera
