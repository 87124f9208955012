// The synthetic images are worth learning, as a linear model does not suffice. The program of the
// README tests that a small network learns them.
#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/ops/metrics.h"
#include "tessera/layers/optimizers/adamw.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/sets/synthetic.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 50, kTraining = 5000, kTest = 1000;

TEST(SyntheticHardness, ALinearModelStaysUnder60Percent) {
  Store store(1);
  const Linear linear(store, "fc1", {.in = 32 * 32 * 3, .out = 10});
  AdamW optimizer(store, store.parameters(), {});
  const auto logits_of = [&](const Tensor& images) {
    return linear(flatten(image_normalize(images, {{0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}})));
  };
  auto train = compile([&](const Tensor& images, const Tensor& labels, const Tensor& lr) {
    const Tensor logits = logits_of(images);
    optimizer.step(gradients(cross_entropy(logits, labels), store.parameters()), lr);
    return top_k_correct(logits, labels);
  });
  auto evaluate = compile([&](const Tensor& images, const Tensor& labels) {
    return top_k_correct(logits_of(images), labels);
  });

  // Returns the accuracy of an epoch.
  const auto run = [&](Loader& loader, int64_t images, double lr) {
    double correct = 0;
    for (int64_t i = 0; i < images / kBatch; ++i) {
      const Batch& batch = loader.next();
      const Tensor x = from_bytes({kBatch, 32, 32, 3}, DType::u8, batch.images);
      const Tensor y = from_bytes({kBatch}, DType::i32, batch.labels);
      correct += (lr > 0 ? train(x, y, scalar(lr)) : evaluate(x, y)).item<double>();
    }
    return correct / static_cast<double>(images);
  };
  Loader training(synthetic(1, SyntheticSplit::kTrain, kTraining),
                  {.batch = kBatch, .shuffle = true});
  Loader test(synthetic(1, SyntheticSplit::kTest, kTest), {.batch = kBatch});
  double seen = 0;
  for (int epoch = 0; epoch < 8; ++epoch) seen = run(training, kTraining, epoch < 6 ? 3e-4 : 3e-5);
  const double unseen = run(test, kTest, 0);
  RecordProperty("training_accuracy", std::to_string(seen));
  RecordProperty("test_accuracy", std::to_string(unseen));
  EXPECT_GT(seen, 0.2);  // a linear model learns something
  EXPECT_LT(unseen, 0.6);
}

}  // namespace
}  // namespace tessera
