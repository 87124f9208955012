// A batch in parts (train.accumulate).
#include <cstdlib>
#include <mutex>
#include <sstream>

#include "tessera/engine/structural.h"
#include "tessera/graph/arena_budget.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/context.h"
#include "tessera/tests/engine/op_testing.h"
#include "tessera/tests/models/training/parts_steps.h"
#include "tessera/tests/models/training/run_files.h"
#include "tessera/tests/runtime/exchange/simulated_network.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;

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

// Batch norm, dropout, an average of the weights, clipping by the norm of all gradients.
TEST(Parts, AnyNumberOfProcessesGivesTheSameBits) {
  Config config = norm_config();
  for (const int parts : {4, 5, 8}) {
    config.train.accumulate = parts;
    config.mode = Mode::kGraph;
    const Trained alone = trained(config, nullptr);
    for (const Mode mode : {Mode::kGraph, Mode::kEager})
      for (const int size : {1, 2, 3, 4}) {
        config.mode = mode;
        std::mutex mutex;
        std::vector<Trained> all;
        SimulatedNetwork network(size, static_cast<uint64_t>(parts * size));
        network.run([&](std::shared_ptr<Exchange> exchange) {
          Trained one = trained(config, exchange);
          const std::lock_guard lock(mutex);
          all.push_back(std::move(one));
        });
        for (const Trained& one : all)
          EXPECT_TRUE(one == alone) << parts << " parts, " << size << " processes, "
                                    << (mode == Mode::kEager ? "eager" : "graph");
      }
  }
}

// Everything that can be recomputed is, in the least memory, but nothing that a message is read
// from or arrives in, and no message is sent twice.
TEST(Parts, ABudgetKeepsTheMemoryOfMessages) {
  Config config = norm_config();
  config.train.accumulate = 4;
  const Trained alone = trained(config, nullptr);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SimulatedNetwork network(2, seed);
    network.run([&](std::shared_ptr<Exchange> exchange) {
      CompileOptions options;
      options.arena_budget = 0;
      try {
        trained(config, exchange, Device{}, options);
      } catch (const BudgetTooSmall& error) {
        options.arena_budget = error.minimum();
      }
      const auto starts = [&](const CompileOptions& compile) {
        Session session(config, Device{}, {16, 16, 3}, kNormalization, compile, exchange);
        const Graph& graph = session.train_step(16).program()->compiled().graph;
        EXPECT_EQ(std::ranges::any_of(graph.nodes, &Node::recomputed), compile.arena_budget >= 0);
        return std::ranges::count(graph.nodes, "exchange_start",
                                  [](const Node& node) { return node.op->name(); });
      };
      EXPECT_EQ(starts(options), starts({}));
      EXPECT_TRUE(trained(config, exchange, Device{}, options) == alone) << seed;
    });
  }
}

// Counts products and convolutions of a step, forward and backward.
TEST(Parts, AProcessComputesItsPartsOnly) {
  Config config = small_config();
  config.data.batch = 14;
  config.train.accumulate = 7;
  const auto ops = [&](std::shared_ptr<Exchange> exchange) {
    Session session(config, Device{}, {16, 16, 3}, kNormalization, {}, std::move(exchange));
    const CompiledGraph& compiled = session.train_step(14).program()->compiled();
    int64_t count = 0, flops = 0;
    for (const Node& node : compiled.graph.nodes) {
      if (!node.op->name().starts_with("conv2d") && !node.op->name().starts_with("matmul"))
        continue;
      ++count, flops += node.op->cost(compiled.graph.input_specs(node)).flops;
    }
    return std::pair(count, flops);
  };
  const auto all = ops(nullptr);
  ASSERT_EQ(all.first % 7, 0);
  for (const int size : {2, 3, 7})
    for (int rank = 0; rank < size; ++rank) {
      const auto own = ops(std::make_shared<Exchange>(rank, size));
      const int64_t parts = parts_of_rank(7, rank, size).count();
      EXPECT_EQ(own.first, all.first / 7 * parts) << rank << " of " << size;
      // Additions of the parts' gradients are fused into these ops.
      EXPECT_NEAR(static_cast<double>(own.second), static_cast<double>(all.second) / 7 * parts,
                  1e-3 * static_cast<double>(own.second));
    }
}

Config tiny_config(int64_t batch) {
  Config config = small_config();
  config.model.name = "mlp";
  config.model.widths = {8};
  config.data.batch = batch;
  config.train.accumulate = 4;
  return config;
}

// 200 orders in which messages arrive, or 10,000 with TESSERA_LONG_TESTS.
TEST(Parts, NoOrderOfMessagesChangesABit) {
  const Config config = tiny_config(7);
  const Trained alone = trained(config, nullptr);
  const char* many = std::getenv("TESSERA_LONG_TESTS");
  for (uint64_t seed = 0; seed < (many != nullptr ? 10000 : 200); ++seed) {
    const int size = 2 + static_cast<int>(seed % 3);
    std::vector<int> same(static_cast<size_t>(size));
    SimulatedNetwork network(size, seed);
    network.run([&](std::shared_ptr<Exchange> exchange) {
      same[static_cast<size_t>(exchange->rank())] = trained(config, exchange) == alone;
    });
    ASSERT_EQ(same, std::vector<int>(same.size(), 1)) << "seed " << seed;
  }
}

// A process that stops at any message is named by the others, which end.
TEST(Parts, AProcessThatStopsIsNamed) {
  const Config config = tiny_config(8);
  const char* many = std::getenv("TESSERA_LONG_TESTS");
  for (int64_t message = 6; message < (many != nullptr ? 60 : 16); ++message) {
    std::vector<std::string> errors(3);
    SimulatedNetwork network(3, static_cast<uint64_t>(message));
    network.silence(1, message);
    try {
      network.run(
          [&](std::shared_ptr<Exchange> exchange) {
            try {
              trained(config, exchange);
            } catch (const PeerError& error) {
              errors[static_cast<size_t>(exchange->rank())] = error.what();
              throw;
            }
          },
          0.3);
    } catch (const PeerError&) {
    }
    EXPECT_NE((errors[0] + errors[2]).find("process 1 on"), std::string::npos) << message;
  }
}

// A training over processes, from the data to the run folder.
class SharedTraining : public testing::Test {
 protected:
  static Config config() {
    Config config = small_config();
    config.data.batch = 12;  // the last batch of an epoch has 8
    config.data.train_count = 44;
    config.data.test_count = 30;
    config.data.workers = 1;
    config.data.augment = {{.kind = "flip_left_right"}};
    config.data.validation.count = 8;
    config.optimizer.lr = 0.02;
    config.ema.decay = 0.9;
    config.train.accumulate = 4;
    config.train.steps = 11;
    config.train.evaluate_every = {4, Duration::Unit::kSteps};
    config.checkpoint.every = {3, Duration::Unit::kSteps};
    config.threads = 1;
    return config;
  }
  // Trains with `size` processes and returns the result of the last rank; 0: without an exchange.
  TrainResult run(Config config, const std::string& name, int size, TrainOptions options = {}) {
    config.run.dir = temporary_.path(name);
    const auto print = [](const std::string&) {};
    if (size == 0) return train(config, print, options);
    TrainResult result;
    SimulatedNetwork network(size, static_cast<uint64_t>(size));
    network.run([&](std::shared_ptr<Exchange> exchange) {
      TrainOptions own = options;
      own.exchange = exchange;
      const TrainResult one = train(config, print, own);
      if (exchange->rank() + 1 == exchange->size()) result = one;
    });
    return result;
  }
  std::string file(const std::string& name, const std::string& file) const {
    return read_all(temporary_.path(name) + "/" + file);
  }
  // Returns epoch, step, phase, loss and accuracy of each line of metrics.csv.
  std::string metrics(const std::string& name) const {
    std::istringstream lines(file(name, "metrics.csv"));
    std::string all;
    for (std::string line; std::getline(lines, line);) {
      size_t end = 0;
      for (int comma = 0; comma < 5; ++comma) end = line.find(',', end + 1);
      all += line.substr(0, end) + "\n";
    }
    return all;
  }
  void expect_same(const std::string& name, const std::string& wanted) {
    EXPECT_TRUE(file(name, "weights.safetensors") == file(wanted, "weights.safetensors")) << name;
    EXPECT_EQ(metrics(name), metrics(wanted)) << name;
    const std::string last = "checkpoints/step-11.safetensors";
    EXPECT_TRUE(file(name, last) == file(wanted, last)) << name;
  }
  TemporaryFolder temporary_;
};

TEST_F(SharedTraining, LeavesTheSameFilesForAnyNumberOfProcesses) {
  const TrainResult alone = run(config(), "alone", 0);
  for (const int size : {1, 2, 3, 4}) {
    const std::string name = "by" + std::to_string(size);
    const TrainResult result = run(config(), name, size);
    expect_same(name, "alone");
    EXPECT_EQ(result.test_loss, alone.test_loss);
    EXPECT_EQ(result.train_loss, alone.train_loss);
    EXPECT_EQ(result.best_step, alone.best_step);
  }
}

TEST_F(SharedTraining, MixesAndWeighsTheWholeBatch) {
  Config mixed = config();
  mixed.data.augment.push_back({.kind = "mixup", .alpha = 0.4});
  mixed.data.augment.push_back({.kind = "cutmix", .alpha = 1.0});
  Config weighted = config();
  weighted.loss.class_weights = {1, 2, 3, 0, 5, 1, 2, 0.5, 1, 1};
  weighted.loss.label_smoothing = 0.1;
  for (const auto& [name, config] : {std::pair("mixed", mixed), {"weighted", weighted}}) {
    run(config, name, 0);
    for (const int size : {2, 3}) {
      const std::string by = name + std::to_string(size);
      run(config, by, size);
      expect_same(by, name);
    }
  }
}

TEST_F(SharedTraining, IsResumedByAnotherNumberOfProcesses) {
  Config whole = config();
  whole.data.validation = {};  // the end of a part is evaluated too, and may be the best
  run(whole, "alone", 0);
  Config part = whole;
  part.train.steps = 2;
  run(part, "by", 4);
  part.train.steps = 5;
  run(part, "by", 1, {.resume = "auto"});
  part.train.steps = 7;
  run(part, "by", 3, {.resume = "auto"});
  run(whole, "by", 0, {.resume = "auto"});
  EXPECT_TRUE(file("by", "weights.safetensors") == file("alone", "weights.safetensors"));
}

// A data set that one process cannot read: it tells its own error at once, with messages under way.
TEST_F(SharedTraining, AnErrorOfOneProcessIsItsOwn) {
  std::vector<std::string> errors(2);
  SimulatedNetwork network(2);
  const auto run_one = [&](std::shared_ptr<Exchange> exchange) {
    const auto rank = static_cast<size_t>(exchange->rank());
    Config config = this->config();
    config.run.dir = temporary_.path("broken");
    int lines = 0;
    errors[rank] = error_of([&] {
      train(config,
            [&](const std::string& line) {
              if (line.find("processes waited") != line.npos && ++lines == 2)
                throw DataError("the disk is gone");
            },
            {.exchange = exchange});
    });
  };
  network.run(run_one, 5);
  EXPECT_EQ(errors[0], "the disk is gone");
  EXPECT_NE(errors[1].find("process 0 on"), std::string::npos) << errors[1];
}

TEST_F(SharedTraining, RefusesWhatCannotBeShared) {
  const auto says = [&](Config config, int size) {
    return error_of([&] { run(config, "refused", size); });
  };
  EXPECT_NE(says(config(), 5).find("5 processes: train.accumulate is 4"), std::string::npos);
  Config other = config();
  other.run.dir = temporary_.path("refused");
  SimulatedNetwork network(2);
  const std::string differ = error_of([&] {
    network.run([&](std::shared_ptr<Exchange> exchange) {
      Config own = other;
      if (exchange->rank() == 1) own.data.train_count = 40;
      train(own, [](const std::string&) {}, {.exchange = exchange});
    });
  });
  EXPECT_NE(differ.find("process 1 has data synthetic train, 32 images"), std::string::npos)
      << differ;
  Config few = config();
  few.data.train_count = 47;  // and 8 of validation: the last batch has 3
  EXPECT_NE(says(few, 4).find("has 3 image(s), fewer than processes"), std::string::npos)
      << says(few, 4);
}

}  // namespace
}  // namespace tessera
