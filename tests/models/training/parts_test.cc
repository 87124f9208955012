// A batch in parts (train.accumulate).
#include "tessera/engine/structural.h"
#include "tessera/graph/program.h"
#include "tessera/models/training/session.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

const Normalization kNormalization{{0.5f, 0.4f, 0.3f}, {0.2f, 0.25f, 0.3f}};

Config small_config() {
  Config config;
  config.seed = 3;
  config.model.name = "cnn_bn";
  config.model.widths = {4, 4, 8, 8};
  config.data.image_size = 16;
  config.threads = 2;
  return config;
}

// In float, (a + b) + (a + b) is 2 (a + b), but ((a + b) + a) + b may be another number.
TEST(Parts, AreAddedInABinaryTree) {
  const auto after_a_step = [](int copies) {
    Config config = small_config();
    config.data.batch = 4 * copies;
    config.train.accumulate = 2 * copies;
    Session session(config, Device{}, {16, 16, 3}, kNormalization);
    CompiledStep& step = session.train_step(config.data.batch);
    session.bind();
    std::vector<uint8_t> pixels;
    std::vector<int32_t> labels;
    const auto images = random_uniform({4, 16, 16, 3}, 1, 0, 256).to_vector<float>();
    for (int i = 0; i < copies; ++i) {
      pixels.insert(pixels.end(), images.begin(), images.end());
      labels.insert(labels.end(), {3, 1, 4, 1});
    }
    Tensor(step.input(0)).assign(std::span<const uint8_t>(pixels));
    Tensor(step.input(1)).assign(std::span<const int32_t>(labels));
    Tensor(step.input(2)).assign_scalar(0.1);
    Tensor(step.input(3)).assign(std::span<const int64_t>(std::vector<int64_t>{0, 0}));
    step.run();
    return session.store().find("conv2.weight").to_vector<float>();
  };
  const auto two = after_a_step(1);
  EXPECT_EQ(after_a_step(2), two);
  EXPECT_EQ(after_a_step(4), two);
  EXPECT_EQ(after_a_step(8), two);
}

// The sums that wait, log2(parts), and the images of one part; no whole set of gradients besides.
TEST(Parts, AreAddedAsTheirGradientsComplete) {
  Config config = small_config();
  config.model.name = "mlp";
  config.model.widths = {512, 512};
  config.data.batch = 8;
  Session whole = Session(config, Device{}, {16, 16, 3}, kNormalization);
  whole.train_step(8);
  const size_t gradients = whole.store().bytes() / 2;  // the rest is momentum
  for (const auto& [parts, waiting] : {std::pair(2, 1), std::pair(4, 2), std::pair(8, 3)}) {
    config.train.accumulate = parts;
    Session session = Session(config, Device{}, {16, 16, 3}, kNormalization);
    session.train_step(8);
    EXPECT_LT(session.arena_bytes(), gradients * (waiting + 1)) << parts;
  }
}

}  // namespace
}  // namespace tessera
