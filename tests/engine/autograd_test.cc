#include "tessera/engine/autograd.h"

#include "tessera/engine/pointwise.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

TEST(Autograd, OverwrittenValuesAreAnErrorNotAWrongNumber) {
  Store store(1);
  Tensor w = store.parameter("w", {3}, Initializer::ones());
  Tensor loss = sum(w * w);
  w.assign<float>(std::vector<float>{1, 2, 3});
  try {
    gradients(loss, Tensors{w});
    FAIL() << "went backward through an overwritten value";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("overwritten"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("w float32[3]"), std::string::npos) << error.what();
  }
}

TEST(Autograd, TheTapeIsLetGo) {
  Tensor x = requires_grad(normal({1000}, 7));
  Tensor y = sum(exp(x) * x);
  gradients(y, Tensors{x});
  EXPECT_THROW(gradients(y, Tensors{x}), Error);
}

// The test above has a loss of h alone. Here the loss also reaches x directly, and that gradient
// alone would be wrong.
TEST(Autograd, ATapeThatIsGonePartlyIsAnErrorNotAPartOfTheGradient) {
  Tensor x = requires_grad(normal({3}, 7));
  Tensor h = x * x;
  gradients(sum(h), Tensors{x});
  const std::string says = error_of([&] { gradients(sum(h * x), Tensors{x}); });
  EXPECT_NE(says.find("was freed by an earlier call of gradients()"), says.npos) << says;
  // The gradient of w needs nothing before h.
  Tensor w = requires_grad(normal({3}, 8));
  EXPECT_EQ(gradients(sum(h * w), Tensors{w})[0].to_vector<double>(), h.to_vector<double>());
}

TEST(Autograd, ALongTapeGoesWithoutRecursion) {
  const Tensor x = requires_grad(normal({1}, 7));
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = y * 1.0;
  const Tensor slope = gradients(y, Tensors{x})[0];
  EXPECT_EQ(slope.item<double>(), 1);
}

TEST(Autograd, UnusedLeavesHaveZeroGradients) {
  Tensor x = requires_grad(normal({2}, 8)), y = requires_grad(normal({2}, 9));
  Tensors grads = gradients(sum(x), Tensors{x, y});
  EXPECT_EQ(grads[0].to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(grads[1].to_vector<double>(), (std::vector<double>{0, 0}));
}

// Each once and whole, the later in the forward pass first; w is used twice, u not at all.
TEST(Autograd, ASinkReceivesAGradientOnceItIsComplete) {
  const Tensor w = requires_grad(normal({3}, 8)), v = requires_grad(normal({3}, 9)),
               u = requires_grad(normal({3}, 10));
  const Tensors wrt{u, w, v, w};
  const auto loss = [&] {
    const Tensor square = w * w;
    return sum(square * exp(v));
  };
  const Tensors wanted = gradients(loss(), wrt);
  std::vector<size_t> order;
  gradients(loss(), wrt, [&](size_t i, Tensor gradient) {
    order.push_back(i);
    EXPECT_EQ(gradient.to_vector<double>(), wanted[i].to_vector<double>()) << i;
  });
  EXPECT_EQ(order, (std::vector<size_t>{2, 1, 3, 0}));
}

TEST(Autograd, BadCallsExplain) {
  Tensor x = requires_grad(normal({2}, 8));
  EXPECT_THROW(gradients(x, Tensors{x}), ShapeError);
  EXPECT_THROW(gradients(sum(x), Tensors{normal({2}, 8)}), Error);
  EXPECT_THROW(normal({2}, 1) + normal({3}, 1), ShapeError);
  EXPECT_THROW(normal({2}, 1) + full({2}, 1.0), ShapeError);
  EXPECT_THROW(Tensor() + full({2}, 1.0), Error);
  EXPECT_THROW(normal({2}, 1).item<double>(), ShapeError);
}

}  // namespace
}  // namespace tessera
