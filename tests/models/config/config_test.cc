#include "tessera/models/config/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/engine/store.h"
#include "tessera/engine/tensor.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/optimizers.h"
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
  EXPECT_EQ(config.data.augment[0].kind, "crop");
  EXPECT_EQ(config.data.augment[0].padding, 4);
  EXPECT_EQ(config.data.augment[1].kind, "flip");
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.optimizer.weight_decay, 5e-4);
  EXPECT_EQ(config.schedule.warmup, (Duration{1, Duration::Unit::kEpochs}));
  EXPECT_EQ(config.train.total_steps(391), 15 * 391);
  EXPECT_EQ(config.run.dir, "runs/resnet");
}

// Both optimizers can exclude biases and norms from the weight decay.
TEST(Config, VectorsMayBeLeftOutOfTheWeightDecay) {
  for (const char* name : {"sgd", "adamw"}) {
    const Config config = parse_config(
        fmt::format("optimizer: {{name: {}, weight_decay: 0.5, decay_vectors: false}}", name), "t");
    Store store;
    store.parameter("weight", {2, 2}, Initializer::ones());
    store.parameter("bias", {2}, Initializer::ones());
    const Tensors zero = {zeros({2, 2}), zeros({2})};
    make_optimizer(config.optimizer, store)->step(zero, scalar(1, DType::f64));
    EXPECT_EQ(store.find("weight").to_vector<float>(), std::vector<float>(4, 0.5f)) << name;
    EXPECT_EQ(store.find("bias").to_vector<float>(), std::vector<float>(2, 1.0f)) << name;
  }
}

TEST(Config, ANormalizationMayBeNamed) {
  const std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225}, other{1, 1, 1};
  const DataConfig both = parse_config("data: {mean: imagenet}", "a.yaml").data;
  EXPECT_EQ(both.mean, mean);
  EXPECT_EQ(both.std, std);
  const DataConfig one = parse_config("data: {mean: imagenet, std: [1, 1, 1]}", "a.yaml").data;
  EXPECT_EQ(one.mean, mean);
  EXPECT_EQ(one.std, other);
  EXPECT_EQ(parse_config("data: {mean: [0, 0, 0], std: imagenet}", "a.yaml").data.std, std);
  const Config again = parse_config(print_config(parse_config("data: {mean: imagenet}", "a")), "b");
  EXPECT_EQ(again.data.mean, mean);
  EXPECT_EQ(again.data.std, std);
  EXPECT_TRUE(
      parse_config("data: {mean: imagenet}", "a", {"~data.mean", "~data.std"}).data.mean.empty());
}

// A run folder of an earlier version is read; a configuration with the earlier names is refused.
TEST(Config, StoredNamesOfEarlierVersionsAreRead) {
  constexpr const char* kEarlier =
      "device: gpu\nmodel:\n  classes: 10\n  layers:\n"
      "    - {residual: [{max_pool: {size: 3, stride: 1, padding: 1, round_up: true}}]}\n"
      "    - {layer_scale: {start: 0.5}}\n    - flatten\n    - {linear: {units: 10}}\n"
      "data:\n  name: hdf5\n  root: rule\n  images: x\n  labels: y\n  read_ahead: 7\n"
      "  test_part: 0.25  # given\noptimizer:\n  name: lars\n  trust: 0.125\n"
      "gpu:\n  plans: tuned\nmemory:\n  costs: counted\n";
  EXPECT_NE(error_of(kEarlier).find("did you mean 'prefetch'?"), std::string::npos);

  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("earlier{}.yaml", getpid());
  std::ofstream(path) << kEarlier;
  const Config config = load_resolved_config(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(config.data.prefetch, 7);
  EXPECT_EQ(config.data.test_fraction, 0.25);
  EXPECT_EQ(config.data.root, "rule");
  EXPECT_EQ(config.optimizer.trust_coefficient, 0.125);
  EXPECT_EQ(config.gpu.plans.text(), "autotuned");
  EXPECT_EQ(config.memory.cost_model, "roofline");
  ASSERT_EQ(config.model.layers.size(), 4u);
  EXPECT_TRUE(config.model.layers[0].layers.at(0).ceil_mode);
  EXPECT_EQ(config.model.layers[1].init_value, 0.5);
  const std::string printed = print_config(config);
  EXPECT_EQ(with_current_names(printed), printed);
}

TEST(Config, AnEmptyTextIsAllDefaults) {
  EXPECT_EQ(print_config(parse_config("", "a.yaml")), print_config(Config()));
}

// Printing and parsing agree for every key.
TEST(Config, PrintsWhatItParses) {
  for (const char* text :
       {"", kExample, "train: {steps: 7}", "model: {name: mlp, widths: [3, 4]}",
        "data: {name: cifar10, mean: [0.5, 0.25, 0.1], std: [1, 2, 0.3], root: 'a, [b]: #c'}",
        "data: {augment: [{crop: {padding: 2, border: reflect}}]}",
        "schedule: {name: multistep, milestones: [32000st, 48000st]}", "seed: 18446744073709551615",
        "run: {dir: 'null'}"}) {
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
  EXPECT_EQ(parse_config(kExample, "a", {"model={name: mlp, classes: 13}"}).model.classes, 13);
  EXPECT_EQ(parse_config(kExample, "a", {"seed=2", "seed=3"}).seed, 3u);
}

TEST(Config, StepsOnTheCommandLinePutEpochsAsideAndTheOtherWayRound) {
  EXPECT_EQ(parse_config(kExample, "a", {"train.steps=50"}).train.total_steps(391), 50);
  EXPECT_EQ(parse_config("train: {steps: 9}", "a", {"train.epochs=2"}).train.total_steps(10), 20);
  EXPECT_EQ(parse_config("train: {steps: none, epochs: 2}", "a").train.total_steps(10), 20);
  EXPECT_EQ(error_of("train: {steps: 9, epochs: 2}"),
            "a.yaml:1:19: error: train.steps and train.epochs: set only one of them\n"
            "  train: {steps: 9, epochs: 2}\n"
            "                    ^~~~~~");
}

TEST(Config, ReportsAllErrorsAtOnceByPlace) {
  EXPECT_EQ(error_of("seed: 1\nmodel: {nmae: x}\ndata:\n  batch: many\n  batch: 3\n"
                     "schedule: {warmup: 5}\n",
                     {"train.stesp=5"}),
            "a.yaml:2:9: error: unknown key 'nmae' in model\n"
            "  model: {nmae: x}\n"
            "          ^~~~ did you mean 'name'?\n"
            "a.yaml:4:10: error: data.batch: must be an integer from 1 to 16777216, but is 'many'\n"
            "    batch: many\n"
            "           ^~~~\n"
            "a.yaml:5:3: error: 'batch' is given twice, first in line 4\n"
            "    batch: 3\n"
            "    ^~~~~\n"
            "a.yaml:6:20: error: schedule.warmup: must be a duration in epochs or steps from 0 on "
            "(such as 2ep or 500st), but is '5', which has no unit; write 5ep or 5st\n"
            "  schedule: {warmup: 5}\n"
            "                     ^\n"
            "command line:1:7: error: unknown key 'stesp' in train\n"
            "  train.stesp=5\n"
            "        ^~~~~ did you mean 'steps'?");
}

TEST(Config, AKeyOutsideOfGroupsIsNotLookedForInOne) {
  EXPECT_EQ(error_of("", {"cpu.threads=2"}),
            "command line:1:5: error: unknown key 'threads' in cpu; it is a top-level key, not in "
            "a group\n"
            "  cpu.threads=2\n"
            "      ^~~~~~~");
}

TEST(Config, AByteOrderMarkIsNoPartOfTheText) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(parse_config(mark + "seed: 3\ntrain: {steps: 3}\n", "a").seed, 3u);
  EXPECT_EQ(error_of(mark + "sed: 3\ndata: {batch: 0}"), error_of("sed: 3\ndata: {batch: 0}"));
}

std::set<std::string> places_of(const std::string& errors) {
  std::set<std::string> places;
  for (size_t at = 0; (at = errors.find("a.yaml:", at)) != std::string::npos; ++at)
    places.insert(errors.substr(at + 7, errors.find(": ", at) - at - 7));
  return places;
}

// An error in one group neither hides errors in other groups nor adds errors in its own.
TEST(Config, ReportsWhatStandsBesideAKeyGivenTwice) {
  const std::string others =
      "model: {name: mlp, depth: 3}\noptimizer: {name: adamw, nesterov: true}\n"
      "schedule: {name: multistep}\n";
  const std::set<std::string> theirs{"2:20", "3:26", "4:12"};
  EXPECT_EQ(places_of(error_of("# all\n" + others)), theirs);
  const std::pair<std::string, std::string> wrong[] = {
      {"seed: 1", "seed: 2"}, {"loss: &a {name: cross_entropy}", ""}, {"seed: !!int 3", ""}};
  for (const auto& [before, behind] : wrong) {
    std::set<std::string> found = places_of(error_of(before + "\n" + others + behind));
    for (const std::string& range : theirs) EXPECT_EQ(found.erase(range), 1u) << before << range;
    EXPECT_EQ(found.size(), 1u) << before;
  }
  EXPECT_EQ(places_of(error_of("data: {batch: 3}\ndata: {btch: 1}")),
            (std::set<std::string>{"2:1", "2:8"}));
  EXPECT_EQ(places_of(error_of("model: {widths: [4]}\nmodel: {name: mlp}")),
            (std::set<std::string>{"2:1"}));
  EXPECT_EQ(places_of(error_of("model: {name: *a, widths: [4]}")), (std::set<std::string>{"1:15"}));
}

TEST(Config, LengthsAboveNothingAreAtLeastAStep) {
  const Duration little{0.001, Duration::Unit::kEpochs}, none{0, Duration::Unit::kEpochs};
  EXPECT_EQ(little.steps(8), 1);
  EXPECT_EQ(none.steps(8), 0);
  EXPECT_EQ((Duration{0.3, Duration::Unit::kEpochs}.steps(8)), 2);
  EXPECT_EQ((Duration{1e300, Duration::Unit::kEpochs}.steps(8)), int64_t{1} << 62);
}

TEST(Config, BoundsWhatIsCountedWith) {
  for (const char* text :
       {"schedule.warmup=1e300ep", "schedule.warmup=2e15st", "checkpoint.every=1e10h",
        "train.epochs=1e300", "train.steps=2000000000000000", "data.train_count=1000000000000",
        "data.test_count=9223372036854775807", "optimizer.eps=1e-300", "data.std=[1e-40,1,1]",
        "data.mean=[1e300,0,0]", "optimizer.lr=1e300", "run.dir=\"\""}) {
    const std::string key = std::string(text).substr(0, std::string(text).find('='));
    const std::string adamw = key == "optimizer.eps" ? "optimizer.name=adamw" : "seed=1";
    const std::string error = error_of("", {adamw, text});
    EXPECT_TRUE(error.starts_with("command line:2:")) << error;
    EXPECT_NE(error.find(": error: " + key + ": must be"), std::string::npos) << error;
  }
  EXPECT_NE(error_of("seed: 18446744073709551616").find("the largest is 18446744073709551615"),
            std::string::npos);
}

// Keys before a syntax error are checked too.
TEST(Config, ReportsWhatStandsBeforeASyntaxError) {
  const std::string errors = error_of("seed: -1\ndata: {batch: 0, root: [1\nloss: {");
  EXPECT_NE(errors.find("a.yaml:1:7: error: seed"), std::string::npos) << errors;
  EXPECT_NE(errors.find("a.yaml:2:15: error: data.batch"), std::string::npos) << errors;
  EXPECT_NE(errors.find("not YAML"), std::string::npos) << errors;
}

TEST(Config, KeepsToAHundredErrors) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const std::string errors = error_of(text);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '^'), 100);
  EXPECT_TRUE(errors.ends_with("\nand 900 more errors"));
}

TEST(Config, AnOverrideWithATildePutsTheDefaultBack) {
  EXPECT_EQ(parse_config(kExample, "a", {"~optimizer.weight_decay"}).optimizer.weight_decay, 0);
  EXPECT_EQ(print_config(parse_config("data: {batch: 3, workers: 1}", "a", {"~data"})),
            print_config(Config()));
  EXPECT_EQ(parse_config("data: {batch: 3}", "a", {"~data", "data.batch=5"}).data.batch, 5);
  EXPECT_EQ(parse_config("train: {steps: 9}", "a", {"~train.steps"}).train.total_steps(10), 100);
  EXPECT_NE(error_of("", {"seed=1", "~data.bacth"}).find("command line:2:7: error: unknown key"),
            std::string::npos);
  EXPECT_NE(error_of("", {"~data.batch=3"}).find("remove the value"), std::string::npos);
}

TEST(Config, KnowsWhereEachValueComesFrom) {
  const Config config = parse_config("seed: 3\ndata: {batch: 3,\n  workers: 1}", "a.yaml",
                                     {"data.workers=2", "~seed"});
  const std::string printed = print_config(config, true);
  EXPECT_NE(printed.find("seed: 1                                   # default\n"),
            std::string::npos)
      << printed;
  EXPECT_NE(printed.find("  batch: 3                                # a.yaml:2\n"),
            std::string::npos)
      << printed;
  EXPECT_NE(printed.find("  workers: 2                              # command line\n"),
            std::string::npos)
      << printed;
  EXPECT_EQ(print_config(parse_config(printed, "printed")), print_config(config));
}

// yaml-cpp itself accepts these: keys given twice, cyclic and exploding aliases, bytes that are not
// UTF-8, octal numbers.
TEST(Config, RefusesWhatTheParserBelowAccepts) {
  EXPECT_NE(error_of("data: {batch: 1, batch: 2}").find("1:18: error: 'batch' is given twice"),
            std::string::npos);
  EXPECT_NE(error_of("model: &a {widths: *a}").find("1:8: error: anchors"), std::string::npos);
  EXPECT_NE(error_of("model: &a {widths: *a}").find("1:20: error: aliases"), std::string::npos);
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    bomb += "a" + n + ": &a" + n + " [*a" + before + ", *a" + before + "]\n";
  }
  EXPECT_NE(error_of(bomb).find("a.yaml:30:18: error: aliases"), std::string::npos);
  EXPECT_NE(error_of("run: {dir: \"\xC3\x28\"}").find("1:13: error: the byte 0xC3 is not UTF-8"),
            std::string::npos);
  EXPECT_NE(error_of("threads: 010").find("did you mean '10'?"), std::string::npos);
  EXPECT_NE(error_of("optimizer: {lr: 010}").find("did you mean '10'?"), std::string::npos);
}

TEST(Config, StaysSmallAndQuickOnHugeTexts) {
  const auto repeated = [](const std::string& part, size_t size = 1u << 20) {
    std::string text;
    while (text.size() + part.size() <= size) text += part;
    return text;
  };
  for (const char* part : {"[",          "{",
                           "- ",         "? ",
                           "a: ",        "!",
                           "&a ",        "*",
                           "'",          "\"",
                           "[]",         "a\n",
                           "a:\n",       "\n",
                           " ",          "#",
                           "%",          "---\n",
                           "[1,",        "{a: ",
                           "- a\n",      "1,",
                           "\t",         "|\n",
                           "\xff",       "\xF0\x9F\x8D\x8E",
                           "a: &b *b\n", "? [a]\n",
                           ": "})
    EXPECT_NE(error_of(repeated(part, 1u << 18)), "") << part;
  EXPECT_NE(error_of("data: {mean: [" + repeated("1,")).find("larger than 1 MiB"),
            std::string::npos);
  EXPECT_NE(error_of("data: {mean: [" + repeated("1,").substr(100)).find("more than 100000 values"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(33, '[') + std::string(33, ']'))
                .find("a.yaml:1:33: error: more than 32 levels deep"),
            std::string::npos);
}

TEST(Config, AFileThatIsNotThereOrNotOneIsAnError) {
  EXPECT_THROW(load_config("no/such/file.yaml"), ConfigError);
  EXPECT_THROW(load_config(std::filesystem::temp_directory_path().string()), ConfigError);
}

// A damaged text gives an error or a configuration, and never crashes.
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
    if (name == "hdf5") continue;  // its file has the shape
    config.data.name = name;
    EXPECT_GT(image_shape(config.data).bytes(), 0) << name;
  }
  config.data.name = "cifra10";
  EXPECT_THROW(image_shape(config.data), ConfigError);
  config.data.augment = {{"crop", 4, CropBorder::kReflect}, {"flip"}};
  Transforms augment = make_transforms(config.data);
  ASSERT_EQ(augment.size(), 2u);
  EXPECT_EQ(augment[0]->describe(), crop(4, CropBorder::kReflect)->describe());
}

}  // namespace
}  // namespace tessera
