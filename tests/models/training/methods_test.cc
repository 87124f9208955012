// Ways to train: each resumes with equal bits, in graph and eager mode and with any number of
// threads, and its steps allocate nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <sstream>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/config/network.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/study/evaluate_run.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/context.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/training/run_files.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;

Config small_config() {
  Config config;
  config.seed = 3;
  config.model.name = "cnn_bn";
  config.model.widths = {4, 4, 8, 8};
  config.data.batch = 8;
  config.data.train_count = 44;
  config.data.test_count = 20;
  config.data.image_size = 16;
  config.data.workers = 0;
  config.optimizer.lr = 0.02;
  config.train.steps = 11;
  config.train.evaluate_every = {4, Duration::Unit::kSteps};
  config.threads = 2;
  return config;
}

class Methods : public testing::Test {
 protected:
  TrainResult run(Config config, const std::string& name, const std::string& resume = "") {
    config.run.dir = temporary_.path(name);
    return train(config, [](const std::string&) {}, {.resume = resume});
  }
  std::string weights(const std::string& name) const {
    return read_all(temporary_.path(name) + "/weights.safetensors");
  }

  // Expects equal bits after a stop, in eager mode and with other threads.
  void expect_same_bits(const Config& config, const std::string& what = "") {
    const std::string whole = "whole" + what, stopped = "stopped" + what;
    run(config, whole);
    Config other = config;
    other.train.steps = 5;
    other.mode = Mode::kEager;
    other.threads = 1;
    run(other, stopped);
    other.train.steps = config.train.steps;
    other.mode = Mode::kGraph;
    other.threads = 3;
    run(other, stopped, "auto");
    const int64_t steps = *config.train.steps;
    EXPECT_EQ(weights(stopped), weights(whole)) << what;
    EXPECT_EQ(tensors_after(stopped, steps), tensors_after(whole, steps)) << what;
  }
  // Returns a checkpoint's tensors, including optimizer state.
  std::string tensors_after(const std::string& name, int64_t step) const {
    const CheckpointFolder folder(checkpoints_path(temporary_.path(name)));
    const std::string bytes = read_all(folder.path(step));
    std::string all;
    const SafetensorsContents contents =
        read_safetensors(MemorySource(std::as_bytes(std::span(bytes))));
    for (const SafeTensor& array : contents.tensors)
      if (array.name != kSealArray.name && !array.name.starts_with("training/"))
        all += array.name + bytes.substr(array.offset, array.bytes);
    return all;
  }

  // Returns the parameters after a step, concatenated.
  std::vector<float> parameters_after(const std::string& name, int64_t step) const {
    const CheckpointFolder folder(checkpoints_path(temporary_.path(name)));
    const std::string bytes = read_all(folder.path(step));
    std::vector<float> all;
    for (const SafeTensor& array :
         read_safetensors(MemorySource(std::as_bytes(std::span(bytes)))).tensors)
      if (array.name.starts_with("weights/")) {
        const size_t at = all.size();
        all.resize(at + array.bytes / sizeof(float));
        std::memcpy(all.data() + at, bytes.data() + array.offset, array.bytes);
      }
    return all;
  }

  TemporaryFolder temporary_;
};

std::vector<float> values_of(Session& session, const std::string& name) {
  return session.store().find(name).to_vector<float>();
}

Session session_of(const Config& config) {
  return Session(config, Device{}, {16, 16, 3}, {{0.5f, 0.4f, 0.3f}, {0.2f, 0.25f, 0.3f}});
}

// Fills in images and labels that depend on the step.
void fill(CompiledStep& step, int64_t number) {
  const Tensor images =
      random_uniform(step.input(0).shape(), static_cast<uint64_t>(number), 0, 256);
  const auto values = images.to_vector<float>();
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  Tensor(step.input(0)).assign(std::span(bytes));
  std::vector<int32_t> labels(static_cast<size_t>(step.input(1).elements()));
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<int32_t>((i + static_cast<size_t>(number)) % 10);
  Tensor(step.input(1)).assign(std::span<const int32_t>(labels));
}

void train_step(Session& session, int64_t number, double lr) {
  CompiledStep& step = session.train_step(8);
  fill(step, number);
  Tensor(step.input(2)).assign_scalar(lr);
  const int64_t now[2] = {number, 0};
  Tensor(step.input(3)).assign(std::span<const int64_t>(now));
  step.run();
}

TEST_F(Methods, AveragedWeightsResumeWithTheSameBits) {
  Config config = small_config();
  config.ema = {.decay = 0.9, .warmup = true};
  config.schedule.name = ScheduleKind::kConstant;
  expect_same_bits(config);
}

TEST_F(Methods, EveryOptimizerResumesWithTheSameBits) {
  for (const std::string& name : optimizer_names()) {
    Config config = small_config();
    config.optimizer.name = name;
    config.optimizer.lr = 0.002;
    expect_same_bits(config, name);
  }
}

TEST_F(Methods, EveryWayToTrainResumesWithTheSameBits) {
  const std::map<std::string, std::function<void(Config&)>> ways{
      {"norm", [](Config& c) { c.optimizer.clip_norm = 0.5; }},
      {"value", [](Config& c) { c.optimizer.clip_value = 0.01; }},
      {"parts", [](Config& c) { c.train.accumulate = 3; }},
      {"frozen",
       [](Config& c) {
         c.train.freeze = {"conv1", "bn1", "conv2"};
       }},
      {"groups",
       [](Config& c) {
         c.optimizer.groups = {{.kind = "vectors", .weight_decay = 0},
                               {.kind = "named", .part = "fc", .lr = 3}};
         c.optimizer.layer_decay = 0.5;
       }},
      {"plateau",
       [](Config& c) {
         c.schedule.name = ScheduleKind::kPlateau;
         c.schedule.patience = 0;
         c.schedule.threshold = 0.99;
         c.train.evaluate_every = {1, Duration::Unit::kSteps};
       }},
      {"bce", [](Config& c) { c.loss.name = LossKind::kBce; }},
      {"everything",
       [](Config& c) {
         c.optimizer.clip_norm = 0.5;
         c.train.accumulate = 2;
         c.train.freeze_all_but = {"conv4", "fc"};
         c.ema.decay = 0.5;
         c.eval.flip = true;
         c.loss.class_weights = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
         c.train.non_finite = OnNonFinite::kSkip;
       }},
  };
  for (const auto& [name, change] : ways) {
    Config config = small_config();
    change(config);
    expect_same_bits(config, name);
  }
}

// weights.safetensors has the averages, a checkpoint has both.
TEST_F(Methods, AveragedWeightsAreEvaluatedAndSaved) {
  Config config = small_config();
  config.ema.decay = 0.75;
  const TrainResult trained = run(config, "run");
  const auto evaluated = [&](const std::string& checkpoint) {
    return evaluate_run({temporary_.path("run"), checkpoint}, {}, [](const std::string&) {});
  };
  EXPECT_EQ(evaluated("").test_loss, trained.test_loss);
  EXPECT_EQ(evaluated("latest").test_loss, trained.test_loss);
  const TrainResult plain =
      evaluate_run({temporary_.path("run")}, {.overrides = {"~ema"}}, [](const std::string&) {});
  EXPECT_EQ(plain.test_loss, trained.test_loss);
}

TEST_F(Methods, AveragesFollowTheWeightsAndTheirStatistics) {
  Config config = small_config();
  config.ema.decay = 0.75;
  Session session = session_of(config);
  session.train_step(8);
  session.bind();
  for (const char* name : {"conv1.weight", "bn1.running_mean"})
    EXPECT_EQ(values_of(session, name), values_of(session, std::string("ema.") + name)) << name;
  std::vector<std::vector<float>> wanted;
  for (int64_t step = 0; step < 4; ++step) {
    train_step(session, step, 0.1);
    size_t i = 0;
    for (const auto& [value, average] : session.store().ema_pairs()) {
      const auto now = value.to_vector<float>();
      if (step == 0) wanted.push_back(now);
      for (size_t k = 0; k < now.size(); ++k)
        if (step > 0) wanted[i][k] += 0.25f * (now[k] - wanted[i][k]);
      EXPECT_EQ(average.to_vector<float>(), wanted[i]) << persistent_name(average) << step;
      ++i;
    }
  }
  EXPECT_EQ(session.store().ema_pairs().size(),
            session.store().parameters().size() + session.store().buffers().size());
}

// A skipped update leaves the averages unchanged too.
TEST_F(Methods, AveragesStayWhereNothingIsUpdated) {
  Config config = small_config();
  config.ema.decay = 0.5;
  Session session = session_of(config);
  session.train_step(8);
  session.bind();
  for (int64_t step = 0; step < 3; ++step) train_step(session, step, 0.1);
  const auto before = values_of(session, "ema.conv1.weight");
  train_step(session, 3, std::nan(""));
  EXPECT_EQ(values_of(session, "ema.conv1.weight"), before);
  EXPECT_EQ(session.store().find("ema.step").to_vector<int64_t>(), std::vector<int64_t>{3});
}

// An image and its mirror image have equal logits and thus equal losses.
TEST_F(Methods, AnEvaluationMayLookAtTheMirrorToo) {
  Config config = small_config();
  Session plain = session_of(config);
  config.eval.flip = true;
  Session both = session_of(config);
  CompiledStep &one = plain.evaluation_step(4), &two = both.evaluation_step(4);
  plain.bind();
  both.bind();
  fill(one, 1);
  fill(two, 1);
  one.run();
  two.run();
  const double loss = two.output(0).item<double>();
  EXPECT_NE(loss, one.output(0).item<double>());
  auto pixels = two.input(0).to_vector<uint8_t>();
  for (size_t row = 0; row < 4 * 16; ++row)
    for (size_t i = 0; i < 8; ++i)
      for (size_t c = 0; c < 3; ++c)
        std::swap(pixels[(row * 16 + i) * 3 + c], pixels[(row * 16 + 15 - i) * 3 + c]);
  Tensor(two.input(0)).assign(std::span<const uint8_t>(pixels));
  two.run();
  EXPECT_EQ(two.output(0).item<double>(), loss);
  const std::string said = both.evaluation_step(4).compiled_graph()->graph.text();
  EXPECT_NE(said.find("flip_left_right"), std::string::npos);
}

// Logits are the mean of those of the image and of two shifted copies with mirrored borders.
TEST_F(Methods, AnEvaluationMayLookAtMovedImagesToo) {
  constexpr int kSide = 16, kBy = 2;
  Config config = small_config();
  Store store(1);
  const auto network = make_network(config, {kSide, kSide, 3}, store);
  const Normalization plain_colours{{0, 0, 0}, {1, 1, 1}};
  std::vector<uint8_t> pixels(kSide * kSide * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  const auto moved = [&](int by) {
    const auto from = [&](int i) {
      const int at = std::abs(i - by);
      return at < kSide ? at : 2 * (kSide - 1) - at;
    };
    std::vector<uint8_t> to(pixels.size());
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x)
        for (int c = 0; c < 3; ++c)
          to[static_cast<size_t>((y * kSide + x) * 3 + c)] =
              pixels[static_cast<size_t>((from(y) * kSide + from(x)) * 3 + c)];
    return to;
  };
  const TrainingScope evaluation(false);
  const auto logits = [&](const std::vector<uint8_t>& image) {
    const Tensor x = from_vector({1, kSide, kSide, 3}, image);
    return evaluated_logits(config, *network, plain_colours, x).to_vector<float>();
  };
  const std::vector<float> plain = logits(pixels), up = logits(moved(-kBy)),
                           down = logits(moved(kBy));
  config.eval.shift = kBy;
  const std::vector<float> mean = logits(pixels);
  ASSERT_EQ(mean.size(), plain.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(mean[i], (plain[i] + up[i] + down[i]) / 3, 1e-6);
    EXPECT_NE(mean[i], plain[i]);
  }
  config.eval.shift = kSide;
  try {
    logits(pixels);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("eval.shift: 16 pixels are too many"),
              std::string::npos);
  }
}

// Without batch norms the gradients of the parts add up to those of the batch.
TEST_F(Methods, PartsOfABatchAddUpToIt) {
  Config config = small_config();
  config.model.name = "mlp";
  config.model.widths = {16};
  Session whole = session_of(config);
  config.train.accumulate = 3;
  Session parts = session_of(config);
  for (Session* session : {&whole, &parts}) {
    session->train_step(8);
    session->bind();
    for (int64_t step = 0; step < 3; ++step) train_step(*session, step, 0.1);
  }
  EXPECT_NEAR(whole.train_step(8).output(0).item<double>(),
              parts.train_step(8).output(0).item<double>(), 1e-5);
  EXPECT_EQ(whole.train_step(8).output(1).item<double>(),
            parts.train_step(8).output(1).item<double>());
  for (const Tensor& p : whole.store().persistent()) {
    const auto wanted = p.to_vector<float>(), got = values_of(parts, persistent_name(p));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], wanted[i], 1e-5) << persistent_name(p);
  }
}

// Losses are divided by sums over the whole batch: parts of it, even single images, and the short
// batch at the end of an epoch give the same training up to rounding.
TEST_F(Methods, PartsOfABatchAddUpToItInEveryLoss) {
  const std::vector<double> uneven{0.1, 3, 0, 1, 7, 0.5, 0, 2, 0.01, 1},
      one{0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  const std::vector<AugmentConfig> mixup{{.kind = "mixup", .alpha = 0.4}};
  const std::map<std::string, std::function<void(Config&)>> ways{
      {"plain", [](Config&) {}},
      {"weights", [&](Config& c) { c.loss.class_weights = uneven; }},
      {"weight of one class", [&](Config& c) { c.loss.class_weights = one; }},
      {"smoothed", [](Config& c) { c.loss.label_smoothing = 0.2; }},
      {"smoothed weights",
       [&](Config& c) { c.loss = {.label_smoothing = 0.2, .class_weights = uneven}; }},
      {"balanced weights",
       [&](Config& c) {
         c.loss.class_weights = uneven;
         c.data.sampling = Sampling::kBalanced;
       }},
      {"mixed", [&](Config& c) { c.data.augment = mixup; }},
      {"mixed weights",
       [&](Config& c) {
         c.data.augment = mixup;
         c.loss.class_weights = uneven;
       }},
      {"bce",
       [&](Config& c) {
         c.data.augment = mixup;
         c.loss = {.name = LossKind::kBce, .label_smoothing = 0.1, .target_threshold = 0.2};
       }},
      {"mse", [](Config& c) { c.loss.name = LossKind::kMse; }},
      {"clipped weights",
       [&](Config& c) {
         c.loss.class_weights = uneven;
         c.optimizer.clip_norm = 0.5;
         c.train.non_finite = OnNonFinite::kSkip;
       }},
  };
  for (const auto& [name, change] : ways) {
    Config config = small_config();
    config.model.name = "mlp";
    config.model.widths = {16};
    config.data.batch = 10;  // the last batch of an epoch has 4
    change(config);
    const TrainResult whole = run(config, name);
    const std::vector<float> wanted = parameters_after(name, whole.steps);
    ASSERT_GT(wanted.size(), 1000u);
    for (const int parts : {2, 5, 10}) {
      config.train.accumulate = parts;
      const std::string in_parts = name + std::to_string(parts);
      const TrainResult result = run(config, in_parts);
      EXPECT_NEAR(result.train_loss, whole.train_loss, 1e-5) << in_parts;
      const std::vector<float> got = parameters_after(in_parts, result.steps);
      ASSERT_EQ(got.size(), wanted.size());
      float off = 0;
      for (size_t i = 0; i < got.size(); ++i) off = std::max(off, std::abs(got[i] - wanted[i]));
      EXPECT_LT(off, 2e-5) << in_parts;
    }
  }
}

// The sum of the weights, which is the divisor, is 0.
TEST_F(Methods, ABatchOfClassesWithoutWeightHasNoLoss) {
  Config config = small_config();
  config.model.name = "mlp";
  config.model.widths = {16};
  config.optimizer.momentum = 0;
  config.loss.class_weights = {0, 0, 0, 0, 0, 0, 0, 0, 5, 0};
  for (const double smoothing : {0.0, 0.1})
    for (const int parts : {1, 4}) {
      config.loss.label_smoothing = smoothing;
      config.train.accumulate = parts;
      Session session = session_of(config);
      session.train_step(8);
      session.bind();
      const auto before = values_of(session, "fc1.weight");
      train_step(session, 0, 0.1);  // labels 0 to 7
      EXPECT_EQ(session.train_step(8).output(0).item<double>(), 0) << smoothing << parts;
      EXPECT_EQ(values_of(session, "fc1.weight"), before) << smoothing << parts;
      train_step(session, 1, 0.1);  // labels 1 to 8
      EXPECT_GT(session.train_step(8).output(0).item<double>(), 0) << smoothing << parts;
      EXPECT_NE(values_of(session, "fc1.weight"), before) << smoothing << parts;
    }
}

TEST_F(Methods, PartsOfABatchTakeLessMemory) {
  Config config = small_config();
  config.data.batch = 32;
  Session whole = session_of(config);
  whole.train_step(32);
  config.train.accumulate = 4;
  Session parts = session_of(config);
  parts.train_step(32);
  EXPECT_LT(parts.arena_bytes(), whole.arena_bytes() / 2);
}

// Frozen parts have no gradient, state or statistics, and no activations stored for gradients only.
TEST_F(Methods, FrozenPartsTakeNothing) {
  Config config = small_config();
  Session all = session_of(config);
  all.train_step(8);
  config.train.freeze = {"conv1", "bn1", "conv2", "bn2", "conv3", "bn3"};
  config.ema.decay = 0.5;
  Session some = session_of(config);
  CompiledStep& step = some.train_step(8);
  EXPECT_LT(some.arena_bytes(), all.arena_bytes() * 3 / 4);
  EXPECT_FALSE(some.store().find("optimizer.momentum.conv1.weight"));
  EXPECT_FALSE(some.store().find("ema.conv1.weight"));
  EXPECT_TRUE(some.store().find("optimizer.momentum.conv4.weight"));
  const std::string text = step.compiled_graph()->graph.text();
  EXPECT_EQ(text.find("conv2d_weight_grad"), text.rfind("conv2d_weight_grad"));
  some.bind();
  const auto before = values_of(some, "conv2.weight"), mean = values_of(some, "bn2.running_mean");
  const auto free = values_of(some, "conv4.weight");
  train_step(some, 0, 0.1);
  train_step(some, 1, 0.1);
  EXPECT_EQ(values_of(some, "conv2.weight"), before);
  EXPECT_EQ(values_of(some, "bn2.running_mean"), mean);
  EXPECT_NE(values_of(some, "conv4.weight"), free);
}

TEST_F(Methods, GroupsAndLayersHaveFactors) {
  Config config = small_config();
  config.optimizer.layer_decay = 0.5;
  config.optimizer.groups = {{.kind = "vectors", .weight_decay = 0},
                             {.kind = "named", .part = "conv2", .lr = 8}};
  Session session = session_of(config);
  const Tensors& parameters = session.store().parameters();
  const std::vector<ParameterScale> scales = parameter_scales(config.optimizer, parameters);
  std::map<std::string, ParameterScale> by_name;
  for (size_t i = 0; i < scales.size(); ++i) by_name[persistent_name(parameters[i])] = scales[i];
  const auto last = persistent_name(parameters.back());
  EXPECT_EQ(by_name.at(last), (ParameterScale{1, 0})) << last;
  const double first = by_name.at("conv1.weight").lr;
  EXPECT_EQ(by_name.at("bn1.gamma"), (ParameterScale{2 * first, 0}));
  EXPECT_EQ(by_name.at("conv2.weight"), (ParameterScale{8 * 4 * first, 1}));
}

TEST_F(Methods, TrainingEndsWhereEvaluationsDoNotGetBetter) {
  Config config = small_config();
  config.optimizer.lr = 0;
  config.train.steps = 40;
  config.train.evaluate_every = {1, Duration::Unit::kSteps};
  config.train.patience = 3;
  config.checkpoint.best = BestBy::kLoss;
  config.model.name = "mlp";
  config.model.widths = {8};
  const TrainResult result = run(config, "short");
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(result.stopped_by, 0);
  EXPECT_EQ(run(config, "short", "auto").steps, 4);
  config.train.patience = 5;
  EXPECT_EQ(run(config, "short", "auto").steps, 6);
}

TEST_F(Methods, AnEvaluationThatIsNotFiniteIsNoBetterOne) {
  Config config = small_config();
  config.optimizer.lr = 1e30;
  config.train.steps = 40;
  config.train.evaluate_every = {1, Duration::Unit::kSteps};
  config.train.patience = 2;
  config.train.non_finite = OnNonFinite::kSkip;
  config.model.name = "mlp";
  config.model.widths = {8};
  try {
    run(config, "lost");
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_NE(std::string(error.what()).find("the final test loss is"), std::string::npos)
        << error.what();
  }
}

// A plateau counts evaluations; checkpoints contain its state.
TEST_F(Methods, APlateauLowersTheRate) {
  Config config = small_config();
  config.schedule.name = ScheduleKind::kPlateau;
  config.schedule.gamma = 0.5;
  config.schedule.patience = 1;
  config.schedule.threshold = 0.99;  // nothing is an improvement
  config.train.evaluate_every = {1, Duration::Unit::kSteps};
  config.train.log_every = {1, Duration::Unit::kSteps};
  config.train.steps = 6;
  run(config, "run");
  std::istringstream lines(read_all(temporary_.path("run") + "/metrics.csv"));
  std::string rates;
  for (std::string line; std::getline(lines, line);)
    if (line.find(",train,") != std::string::npos) {
      std::vector<std::string> cells;
      std::istringstream parts(line);
      for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
      rates += cells.at(5) + " ";
    }
  EXPECT_EQ(rates, "0.02 0.02 0.02 0.01 0.01 0.005 ");
}

TEST_F(Methods, LossesAreThoseOfPyTorchAndTimm) {
  const golden::File file(TESSERA_SOURCE_DIR "/tests/golden/updates.h5");
  const auto read = [&](const std::string& name) { return file.read("losses/" + name); };
  const golden::Array numbers = read("labels");
  const Tensor labels =
      from_vector({6}, std::vector<int32_t>(numbers.values.begin(), numbers.values.end()));
  const Tensor mixed = from_vector({6, 4}, read("mixed").values);
  std::map<std::string, LossConfig> cases;
  for (const char* name : {"weights", "weights_smoothed", "weights_mixed"})
    cases[name].class_weights = {0.5, 2, 1, 3};
  cases["weights_smoothed"].label_smoothing = 0.1;
  cases["bce"] = {.name = LossKind::kBce, .label_smoothing = 0.1};
  cases["bce_threshold"] = {.name = LossKind::kBce, .target_threshold = 0.2};
  cases["mse"] = {.name = LossKind::kMse};
  for (const auto& [name, config] : cases) {
    const bool is_mixed = name == "weights_mixed" || name == "bce_threshold";
    const Tensor x = requires_grad(from_vector({6, 4}, read("logits").values));
    const Tensor loss = training_loss(config, x, labels, is_mixed ? mixed : Tensor());
    EXPECT_NEAR(loss.item<double>(), read(name + "/loss").values[0], 1e-12) << name;
    const auto slopes = gradients(loss, std::vector{x})[0].to_vector<double>();
    const auto wanted = read(name + "/gradient").values;
    for (size_t i = 0; i < slopes.size(); ++i) EXPECT_NEAR(slopes[i], wanted[i], 1e-12) << name;
  }
}

}  // namespace
}  // namespace tessera
