// Rules that hold between the keys of a configuration; tests/errors/config/ has the texts of
// errors.
#include <map>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/engine/store.h"
#include "tessera/models/config/config.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/config/network.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// A run can be repeated from the configuration that it wrote, which names every key.
TEST(ConfigChecks, ResolvedConfigurationsLoad) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (const std::string& schedule : names_of<ScheduleKind>()) {
      for (const std::string& data : data_names()) {
        Config config;
        config.optimizer.name = optimizer;
        config.schedule.name.set(schedule);
        if (schedule == "multistep") config.schedule.milestones = {{5, Duration::Unit::kEpochs}};
        config.data.name = data;
        config.model.classes = 100;
        if (data == "image_folder") config.data.image_size = 64;
        const std::string printed = print_config(config);
        EXPECT_EQ(print_config(parse_config(printed, "printed")), printed);
      }
    }
  }
}

// A Config may hold keys without effect; the printed configuration omits them and can be read.
TEST(ConfigChecks, WhatHasNoEffectIsNotPrinted) {
  Config config;
  config.optimizer.name = "adamw";
  config.optimizer.nesterov = true;
  config.optimizer.beta1 = 0.8;
  config.optimizer.weight_decay = 0.05;
  config.schedule.gamma = 0.5;
  const std::string printed = print_config(config);
  EXPECT_EQ(printed.find("nesterov"), std::string::npos);
  EXPECT_EQ(printed.find("gamma"), std::string::npos);
  EXPECT_NE(printed.find("beta1: 0.8"), std::string::npos);
  EXPECT_NE(printed.find("momentum: 0.9"), std::string::npos);
  EXPECT_NE(printed.find("weight_decay: 0.05"), std::string::npos);
  EXPECT_EQ(parse_config(printed, "printed").optimizer.beta1, 0.8);
}

// Help texts and errors take the choices that read a key from one list.
TEST(ConfigChecks, HelpBeginsWithTheChoicesThatReadTheKey) {
  EXPECT_EQ(optimizers_with("beta1"),
            (std::vector<std::string>{"adamw", "adam", "lion", "lamb", "muon"}));
  Config config;
  std::map<std::string, std::string> help;
  for (const ConfigKey& key : config_keys(config)) {
    help[key.path] = key.help;
    EXPECT_TRUE(!key.when || !key.when->values.empty()) << key.path;
  }
  EXPECT_EQ(help["schedule.gamma"], "step, multistep, exponential, plateau: factor of lr");
  EXPECT_EQ(help["optimizer.beta1"].substr(0, 31), "adamw, adam, lion, lamb, muon: ");
  EXPECT_EQ(help["model.widths"].substr(0, 13), "mlp, cnn_bn: ");
  EXPECT_EQ(help["gpu.workspace"].substr(0, 7), "maximum");
}

TEST(ConfigChecks, WhatFitsIsAccepted) {
  for (const char* text :
       {"data: {name: cifar100, labels: coarse}\nmodel: {classes: 20}",
        "data: {name: cifar100}\nmodel: {classes: 100}",
        "data: {name: cifar10, image_size: 0, train_count: 50000, test_count: 10000}",
        "data: {name: mnist, mean: [0.1], std: [0.3]}",
        "data: {mean: [0.1, 0.1, 0.1], std: [0.3, 0.3, 0.3]}",
        "data: {name: hdf5, root: a.h5, mean: [0.1, 0.2], std: [0.3, 0.4]}",
        "data: {name: image_folder, image_size: 4096}\nmodel: {classes: 2}",
        "data: {image_size: 16}",
        "data: {image_size: 512}",
        "data: {batch: 16777216}",
        "model: {name: alexnet}\ndata: {image_size: 63}",
        "model: {name: vgg19_bn}",
        "model: {name: densenet121}\ndata: {image_size: 29}",
        "model: {name: wide_resnet, depth: 10}",
        "model: {name: densenet_bc, depth: 40}",
        "model: {name: mlp, widths: [1000000, 1000000]}",
        "memory: {limit: 1GiB}",
        "mode: eager",
        "deterministic: true",
        "device: gpu:0\ndeterministic: false",
        "device: gpu\ngpu: {tf32: false}",
        "device: auto\ngpu: {tf32: false}\nmemory: {gpu_limit: 1GiB}",
        "device: gpu:H100\ngpu: {plans: autotuned}",
        "device: cpu\ngpu: {tf32: true, workspace: 1GiB}",
        "device: cpu:1\ndevices: {cpu: [2GiB, 512MiB]}",
        "device: gpu:1\ndevices: {cpu: [2GiB], gpu: [20GiB, 1TiB]}",
        "device: auto\ndeterministic: false",
        "optimizer: {name: adamw, momentum: 0.9, nesterov: false, beta1: 0.8}",
        "schedule: {name: one_cycle, gamma: 0.1, every: 30ep, milestones: [], peak_at: 0.2}"})
    EXPECT_NO_THROW(parse_config(text, "a.yaml")) << text;
}

// An override that makes another choice resets the keys that a file gave for the first choice.
TEST(ConfigChecks, ASettingThatNothingReadsIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"data.root=xx", "data.name=synthetic"},
      {"memory.planner=optimal", "mode=eager"},
      {"checkpoint.best=loss", "checkpoint.keep=0"},
      {"data.prefetch=7", "data.workers=0"},
      {"optimizer.nesterov=true", "optimizer.name=adamw"},
      {"model.growth=12", "model.name=lenet5"},
      {"gpu.tf32=false", "device=cpu"},
      {"gpu.cuda_graph=false", "device=cpu:0"},
      {"gpu.synchronous=true", "device=/CPU:0"},
      {"gpu.workspace=1MiB", "device=cpu"},
      {"gpu.plans=autotuned", "device=cpu"},
      {"devices.gpu=[1GiB]", "device=CPU"},
      {"memory.gpu_limit=1GiB", "device=cpu"},
      {"model.layers=[flatten, {linear: {units: 10}}]", "model.name=lenet5"}};
  for (const auto& [key, choice] : cases) {
    EXPECT_THROW(parse_config("", "a.yaml", {key, choice}), ConfigErrors) << key;
    const std::string text = key;
    const size_t dot = text.find('.'), equals = text.find('=');
    const std::string file = text.substr(0, dot) + ": {" + text.substr(dot + 1, equals - dot - 1) +
                             ": " + text.substr(equals + 1) + "}";
    EXPECT_NO_THROW(parse_config(file, "a.yaml", {choice})) << file;
  }
  EXPECT_THROW(parse_config("data: {augment: [mixup, {mixup: {alpha: 0.1}}]}", "a.yaml"),
               ConfigErrors);
  EXPECT_NO_THROW(parse_config("data: {augment: [mixup, cutmix]}", "a.yaml"));
  EXPECT_NO_THROW(parse_config("model: {name: lenet5, dropout: none}", "a.yaml"));
}

TEST(ConfigChecks, WhatIsPutAsideIsNamedAndGone) {
  const Config config = parse_config(
      "model: {name: wide_resnet, depth: 16, widen: 8}\noptimizer: {nesterov: true, weight_decay: "
      "0.5}\n",
      "a.yaml", {"model.name=resnet20", "optimizer.name=adamw"});
  EXPECT_EQ(config.ignored_keys,
            (std::vector<std::string>{"model.depth: 16 (a.yaml:1)", "model.widen: 8 (a.yaml:1)",
                                      "optimizer.nesterov: true (a.yaml:2)"}));
  EXPECT_FALSE(config.model.depth);
  EXPECT_FALSE(config.optimizer.nesterov);
  EXPECT_EQ(config.optimizer.weight_decay, 0.5);  // both optimizers read it
  EXPECT_TRUE(parse_config("seed: 2", "a.yaml", {"model.name=lenet5"}).ignored_keys.empty());
  const Config layered = parse_config("model: {name: mlp, widths: [8]}", "a.yaml",
                                      {"model.layers=[flatten, {linear: {units: 10}}]"});
  EXPECT_EQ(layered.ignored_keys, (std::vector<std::string>{"model.name: mlp (a.yaml:1)",
                                                            "model.widths: [8] (a.yaml:1)"}));
  EXPECT_EQ(layered.model.name, "layers");
}

// The default learning rate of SGD is a hundred times that of Adam.
TEST(ConfigChecks, EveryOptimizerHasItsOwnLearningRate) {
  const auto lr = [](const std::string& text, const std::vector<std::string>& overrides = {}) {
    return parse_config(text, "a.yaml", overrides).optimizer.lr;
  };
  const std::map<std::string, double> usual{{"sgd", 0.1},      {"adamw", 1e-3}, {"adam", 1e-3},
                                            {"rmsprop", 1e-2}, {"lion", 1e-4},  {"lamb", 1e-3},
                                            {"lars", 0.1},     {"muon", 1e-3}};
  for (const std::string& name : optimizer_names()) {
    const std::string text = "optimizer: {name: " + name + "}";
    EXPECT_EQ(lr(text), usual.at(name)) << name;
    EXPECT_EQ(lr("", {"optimizer.name=" + name}), usual.at(name)) << name;
    EXPECT_EQ(lr("optimizer: {lr: 0.5, name: " + name + "}"), 0.5) << name;
    EXPECT_EQ(lr(text, {"optimizer.lr=0.5"}), 0.5) << name;
    EXPECT_EQ(lr("optimizer: {lr: 0.5, name: " + name + "}", {"~optimizer.lr"}), usual.at(name));
  }
}

// A learning rate in a file applies only to the optimizer that the file names.
TEST(ConfigChecks, AnotherOptimizerPutsTheLearningRateAside) {
  const char* text = "optimizer: {name: sgd, lr: 0.1}";
  const Config config = parse_config(text, "a.yaml", {"optimizer.name=adam"});
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.ignored_keys, std::vector<std::string>{"optimizer.lr: 0.1 (a.yaml:1)"});
  const Config given = parse_config(text, "a.yaml", {"optimizer.name=adam", "optimizer.lr=0.1"});
  EXPECT_EQ(given.optimizer.lr, 0.1);
  EXPECT_TRUE(given.ignored_keys.empty());
  EXPECT_EQ(parse_config(text, "a.yaml", {"optimizer.name=sgd"}).optimizer.lr, 0.1);
  EXPECT_EQ(parse_config("optimizer: {name: adamw, lr: 0.01}", "a.yaml", {"optimizer.name=adam"})
                .optimizer.lr,
            0.01);  // an optimizer of one kind
}

TEST(ConfigChecks, WhatARunFindsWrongHasItsLine) {
  const Config config =
      parse_config("seed: 1\nschedule: {name: multistep, milestones: [50st, 1ep]}", "a.yaml");
  const auto text = [&](const std::string& error) {
    return placed_text(config, ConfigError(error));
  };
  EXPECT_TRUE(
      text("schedule.milestones: must increase")
          .starts_with("a.yaml:2:29: error: schedule.milestones: must increase\n  schedule:"));
  EXPECT_EQ(text("schedule.every: is none"), "schedule.every: is none");  // key not given
  EXPECT_EQ(text("no key at all"), "no key at all");
}

TEST(ConfigChecks, ValidationIsAPartACountOrAFolder) {
  const auto read = [](const std::string& text) {
    return parse_config("data: {name: image_folder, image_size: 32, validation: " + text +
                            "}\nmodel: {name: lenet5}",
                        "a.yaml")
        .data.validation;
  };
  EXPECT_FALSE(read("none").any());
  EXPECT_EQ(read("12.5%").percent, 12.5);
  EXPECT_EQ(read("\"10%\"").percent, 10);
  EXPECT_EQ(read("500").count, 500);
  EXPECT_EQ(read("val").folder, "val");
  EXPECT_EQ(read("./10").folder, "./10");
  for (const char* text : {"none", "12.5%", "500", "val", "./10"}) {
    Config config;
    config.data.name = "image_folder";
    config.data.image_size = 32;
    config.model.name = "lenet5";
    config.data.validation = read(text);
    EXPECT_EQ(parse_config(print_config(config), "b.yaml").data.validation, config.data.validation)
        << print_config(config);
  }
}

TEST(ConfigChecks, WorkersMayBeAuto) {
  const Config config = parse_config("data: {workers: auto}", "a.yaml");
  EXPECT_GE(config.data.workers, 1);
  EXPECT_LE(config.data.workers, 16);
  EXPECT_NE(print_config(config).find("workers: auto\n"), std::string::npos);
  EXPECT_EQ(parse_config("data: {workers: 3}", "a.yaml").data.workers, 3);
}

TEST(ConfigChecks, EveryModelIsBuiltAsTrainingWould) {
  for (const std::string& name : model_names()) {
    Config config;
    config.model.name = name;
    EXPECT_FALSE(find_network_problem(config, ImageShape{64, 64, 3})) << name;
    EXPECT_FALSE(find_network_problem(config, std::nullopt)) << name;
    for (const int size : {1, 2, 3, 5, 8, 11, 16, 28, 29, 31, 32, 33, 63}) {
      Store store;
      bool built = true;
      try {
        make_network(config, {size, size, 1}, store);
      } catch (const ConfigError&) {
        built = false;
      }
      // A network that cannot be built is refused. Others may be refused too, because of their
      // shapes.
      const bool refused = find_network_problem(config, ImageShape{size, size, 1}).has_value();
      EXPECT_TRUE(refused || built) << name << " " << size;
      const bool any_size = name.starts_with("resnet") || name == "mlp";
      EXPECT_FALSE(refused && any_size) << name << " " << size;
    }
  }
}

// This data set's name does not determine the number of channels, so its images do.
TEST(ConfigChecks, ANormalizationNeedsAnEntryForEachChannel) {
  const DatasetInfo info{.name = "gray",
                         .shape = {2, 2, 1},
                         .count = 1,
                         .classes = 2,
                         .class_names = {},
                         .normalization = {{0.5f}, {0.25f}}};
  const MemoryDataset data(info, std::vector<uint8_t>(4), {0});
  Config config;
  EXPECT_EQ(normalization_of(config, data).mean, std::vector<float>{0.5f});
  config.data.mean = {0.125};
  config.data.std = {0.75};
  EXPECT_EQ(normalization_of(config, data).mean, std::vector<float>{0.125f});
  EXPECT_EQ(normalization_of(config, data).std, std::vector<float>{0.75f});
  config.data.mean = config.data.std = {0.1, 0.2, 0.3};
  try {
    normalization_of(config, data);
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "data.mean: has 3 entries, but the images of gray have 1 channels");
  }
}

// Sizes that overflow int64 are errors, not small numbers.
TEST(ConfigChecks, SizesThatOverflowAreErrors) {
  constexpr int64_t kMax = 2147483647;
  EXPECT_THROW((TensorSpec{DType::f32, {kMax, kMax}, {}}.bytes()), ShapeError);
  EXPECT_EQ((TensorSpec{DType::u8, {kMax, kMax}, {}}.bytes()),
            static_cast<size_t>(kMax) * static_cast<size_t>(kMax));
  Store store;
  const Shape large{kMax, kMax / 2};  // nearly 2^63 bytes
  store.parameter("a", large, Initializer::zeros());
  store.parameter("b", large, Initializer::zeros());
  EXPECT_THROW(store.parameter("c", large, Initializer::zeros()), ShapeError);
  EXPECT_FALSE(store.find("c").defined());
  EXPECT_TRUE(store.find("b").defined());
}

}  // namespace
}  // namespace tessera
