#include "tessera/models/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "tessera/models/config_keys.h"
#include "tessera/models/spelling.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "a.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

constexpr char kExample[] = R"(seed: 1
device: cpu
mode: graph
deterministic: true
threads: 0
model: {name: resnet20, classes: 10}
data: {name: cifar10, root: data/cifar10, batch: 128, workers: 2, augment: [{crop: {padding: 4}}, {flip: horizontal}]}
loss: {name: cross_entropy, label_smoothing: 0.0}
optimizer: {name: sgd, lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 5e-4}
schedule: {name: cosine, warmup: 1ep}
train: {epochs: 15}
memory: {planner: best}
run: {dir: runs/resnet}
)";

TEST(Config, ReadsEveryGroup) {
  Config config = parse_config(kExample, "a.yaml");
  EXPECT_EQ(config.seed, 1u);
  EXPECT_EQ(config.model.name, "resnet20");
  EXPECT_EQ(config.data.root, "data/cifar10");
  EXPECT_EQ(config.data.batch, 128);
  ASSERT_EQ(config.data.augment.size(), 2u);
  EXPECT_EQ(config.data.augment[0].kind, AugmentConfig::Kind::kCrop);
  EXPECT_EQ(config.data.augment[0].padding, 4);
  EXPECT_EQ(config.data.augment[1].kind, AugmentConfig::Kind::kFlip);
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.optimizer.weight_decay, 5e-4);
  EXPECT_EQ(config.schedule.warmup, (Duration{1, Duration::Unit::kEpochs}));
  EXPECT_EQ(config.train.total_steps(391), 15 * 391);
  EXPECT_EQ(config.run.dir, "runs/resnet");
}

TEST(Config, AnEmptyTextIsAllDefaults) {
  EXPECT_EQ(print_config(parse_config("", "a.yaml")), print_config(Config()));
}

// The one description: whatever a key holds, printing and parsing agree on it.
TEST(Config, PrintsWhatItParses) {
  for (const char* text : {"", kExample, "train: {steps: 7}", "model: {widths: [3, 4]}",
                           "data: {mean: [0.5, 0.25, 0.1], std: [1, 2, 0.3], root: 'a, [b]: #c'}",
                           "data: {augment: [{crop: {padding: 2, border: reflect}}]}",
                           "schedule: {name: multistep, milestones: [32000st, 48000st]}",
                           "seed: 18446744073709551615", "run: {dir: 'null'}"}) {
    std::string printed = print_config(parse_config(text, "a.yaml"));
    EXPECT_EQ(print_config(parse_config(printed, "printed")), printed) << text;
  }
}

TEST(Config, EveryKeyCanBeOverriddenByItsPrintedValue) {
  Config config = parse_config(kExample, "a.yaml");
  std::vector<ConfigKey> keys = config_keys(config);
  std::set<std::string> paths;
  for (const ConfigKey& key : keys) paths.insert(key.path);
  EXPECT_EQ(paths.size(), keys.size()) << "a key is described twice";
  EXPECT_EQ(parse_config(kExample, "a", {"optimizer.lr=0.5"}).optimizer.lr, 0.5);
  EXPECT_EQ(parse_config(kExample, "a", {"data.augment=[]"}).data.augment.size(), 0u);
  EXPECT_EQ(parse_config(kExample, "a", {"model={name: mlp, classes: 3}"}).model.classes, 3);
  EXPECT_EQ(parse_config(kExample, "a", {"seed=2", "seed=3"}).seed, 3u);
}

TEST(Config, StepsOnTheCommandLinePutEpochsAsideAndTheOtherWayRound) {
  EXPECT_EQ(parse_config(kExample, "a", {"train.steps=50"}).train.total_steps(391), 50);
  EXPECT_EQ(parse_config("train: {steps: 9}", "a", {"train.epochs=2"}).train.total_steps(10), 20);
  EXPECT_EQ(error_of("train: {steps: 9, epochs: 2}"),
            "a.yaml:1:9: train.steps: give it or train.epochs, not both");
}

TEST(Config, ReportsAllErrorsAtOnceWithTheirPlaces) {
  EXPECT_EQ(
      error_of("seed: 1\nmodel: {nmae: x}\ndata:\n  batch: many\n  batch: 3\n"
               "schedule: {warmup: 5}\n"),
      "a.yaml:2:9: unknown key in model: 'nmae' is not known; did you mean 'name'? (known: "
      "name, classes, dropout, widths)\n"
      "a.yaml:4:10: data.batch: must be a whole number from 1 to 2147483647, but is 'many'\n"
      "a.yaml:5:3: data.batch: is given twice, first in line 4\n"
      "a.yaml:6:20: schedule.warmup: must be a length with its unit, epochs or steps, such as "
      "2ep or 500st from 0 on, but is '5'");
}

TEST(Config, KnowsAKeyThatStandsInTheWrongGroup) {
  EXPECT_NE(error_of("lr: 0.1").find("a.yaml:1:1: unknown key: 'lr' is not known; did you mean "
                                     "'optimizer.lr'?"),
            std::string::npos);
}

TEST(Config, ChecksTypesUnitsAndRanges) {
  struct Case {
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"seed: -1", "a.yaml:1:7: seed: must be a whole number, but is '-1'"},
      {"seed: 18446744073709551616", "seed: must be a whole number, but is '18446744073709551616'"},
      {"threads: \"2\"", "but is the text '2'"},
      {"threads: 99999999999", "threads: must be a whole number from 0 to 1024"},
      {"deterministic: yes", "deterministic: must be true or false, but is 'yes'"},
      {"optimizer: {lr: nan}", "optimizer.lr: must be a number from 0 on, but is 'nan'"},
      {"optimizer: {momentum: 1}", "must be a number from 0 and below 1, but is '1'"},
      {"optimizer: {lr: [1]}", "optimizer.lr: must be a number from 0 on, but this list is not"},
      {"optimizer: {lr: }", "optimizer.lr: must be a number from 0 on, but the value is missing"},
      {"train: {epochs: 15ep}", "train.epochs: must be a number above 0, but is '15ep'"},
      {"schedule: {warmup: 0.5st}", "but is '0.5st'"},
      {"schedule: {warmup: -1ep}", "but is '-1ep'"},
      {"model:", "a.yaml:1:1: model: must be a map of keys (name, classes, dropout, widths)"},
      {"model: resnet20", "a.yaml:1:8: model: must be a map of keys"},
      {"run: {dir: {a: b}}", "run.dir: must be a text, but is a map"},
      {"mode: grpah", "mode: 'grpah' is not known; did you mean 'graph'? (known: graph, eager)"},
      {"optimizer: {name: adam}", "'adam' is not known; did you mean 'adamw'? (known: sgd, adamw)"},
      {"loss: {name: mse}", "loss.name: 'mse' is not known; (known: cross_entropy)"},
      {"data: {augment: [{crop: {padding: -1}}]}", "data.augment: must be a list such as"},
      {"data: {augment: [{crop: {}}]}", "data.augment: must be a list such as"},
      {"data: {augment: [{flip: vertical}]}", "a.yaml:1:19: data.augment: flip is written"},
      {"data: {augment: [{blur: 3}]}", "'blur' is not known; (known: crop, flip)"},
      {"data: {augment: {flip: horizontal}}", "data.augment: must be a list such as"},
      {"data: {mean: [0.5]}", "a.yaml:1:8: data.mean and data.std"},
      {"data: {mean: [0.5], std: [0]}", "data.std: must be a list of numbers above 0"},
      {"schedule: {name: multistep}", "multistep needs some"},
      {"schedule: {milestones: [2ep, 1ep]}", "must rise, but 1ep follows 2ep"},
      {"schedule: {name: one_cycle, warmup: 1ep}", "one_cycle rises by itself"},
      {"optimizer: {nesterov: true, momentum: 0}", "needs a momentum above 0"},
      {"- seed", "a.yaml:1:1: a configuration is a map of keys"},
      {"seed: 1\n---\nseed: 2", "a second document"},
      {"? [a]\n: b", "a key must be a word"},
      {"seed: [1", "not YAML"},
      {"seed: *nowhere", "not YAML"},
      {"\x89HDF\r\n\x1a\n", "a.yaml:"},
  };
  for (const Case& c : cases) {
    EXPECT_NE(error_of(c.text).find(c.error), std::string::npos)
        << c.text << "\n  gave: " << error_of(c.text) << "\n  not: " << c.error;
  }
}

TEST(Config, NamesTheOverrideThatIsWrong) {
  EXPECT_EQ(error_of("", {"train.stesp=5"}),
            "command line: train.stesp=5: unknown key in train: 'stesp' is not known; did you mean "
            "'steps'? (known: epochs, steps, evaluate_every, log_every)");
  EXPECT_NE(error_of("", {"seed"}).find("command line: seed: an override is written key=value"),
            std::string::npos);
  EXPECT_NE(error_of("", {"data.augment=["}).find("not YAML"), std::string::npos);
}

TEST(Config, AFileThatIsNotThereOrNotOneIsAnError) {
  EXPECT_THROW(load_config("no/such/file.yaml"), ConfigError);
  EXPECT_THROW(load_config(std::filesystem::temp_directory_path().string()), ConfigError);
}

// Damaged texts: an error or a configuration, never anything else.
TEST(Config, SurvivesTruncationsAndReplacedBytes) {
  const std::string text = kExample;
  for (size_t i = 0; i < text.size(); i += 3) {
    for (const char* byte : {"", "{", "]", ":", "*", "&", "\t", "\"", "%", "\xff", "\n"}) {
      std::string damaged =
          *byte ? text.substr(0, i) + byte + text.substr(i + 1) : text.substr(0, i);
      try {
        parse_config(damaged, "a.yaml");
      } catch (const ConfigError&) {
      }
    }
  }
}

TEST(Config, ShippedFilesAreRightAndPrintable) {
  size_t count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(TESSERA_SOURCE_DIR "/models/configs")) {
    Config config = load_config(file.path().string());
    EXPECT_NO_THROW(image_shape(config.data)) << file.path();
    EXPECT_EQ(config.run.dir, "runs/" + file.path().stem().string());
    std::string printed = print_config(config);
    EXPECT_EQ(print_config(parse_config(printed, "printed")), printed);
    ++count;
  }
  EXPECT_GE(count, 5u);
}

TEST(Config, SaysWhatTheDataFloorNeeds) {
  Config config = parse_config("data: {image_size: 64, train_count: 100}", "a", {"seed=7"});
  DataSource source = data_source(config);
  EXPECT_EQ(source.seed, 7u);
  EXPECT_EQ(source.train_count, 100);
  EXPECT_EQ(source.image_size, 64);
  EXPECT_EQ(image_shape(config.data), (ImageShape{64, 64, 3}));
  for (const std::string& name : data_names()) {
    config.data.name = name;
    EXPECT_GT(image_shape(config.data).bytes(), 0) << name;
  }
  config.data.name = "cifra10";
  EXPECT_THROW(image_shape(config.data), ConfigError);
  config.data.augment = {{AugmentConfig::Kind::kCrop, 4, CropBorder::kReflect},
                         {AugmentConfig::Kind::kFlip}};
  Augment augment = make_augment(config.data);
  ASSERT_EQ(augment.size(), 2u);
  EXPECT_EQ(augment[0]->describe(), crop(4, CropBorder::kReflect)->describe());
}

TEST(Spelling, FindsTheNearestName) {
  const std::vector<std::string> known = {"lenet5", "resnet20", "resnet18", "mlp"};
  EXPECT_EQ(nearest_spelling("lente5", known), "lenet5");
  EXPECT_EQ(nearest_spelling("resnet2", known), "resnet20");
  EXPECT_EQ(nearest_spelling("mpl", known), "mlp");
  EXPECT_EQ(nearest_spelling("transformer", known), "");
  EXPECT_EQ(nearest_spelling("", known), "");
  EXPECT_EQ(nearest_spelling(std::string(100000, 'x'), known), "");
}

}  // namespace
}  // namespace tessera
