// Compares statements of docs/config.md about defaults with the program. Each sentence is searched
// for in the page, so that changing it there fails the test.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/trainer.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/thread_pool.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

using testing_checkpoint::TemporaryFolder;
namespace fs = std::filesystem;

const std::string& page() {
  static const std::string text = [] {
    std::ifstream file(TESSERA_SOURCE_DIR "/docs/config.md");
    std::stringstream all;
    all << file.rdbuf();
    // Joins the lines of each paragraph, because line breaks have no meaning.
    return std::regex_replace(all.str(), std::regex("\n  "), " ");
  }();
  return text;
}

struct Row {
  std::string must_be, value, help;
};

// Returns the rows of the page by key, such as "data.mean".
const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> all = [] {
    std::map<std::string, Row> found;
    std::istringstream lines(page());
    std::string group;
    const std::regex heading("## `?([a-z ]+)`?.*", std::regex::icase),
        row("\\| `([a-z_0-9]+)` \\| (.*) \\| `(.*)` \\| (.*) \\|");
    std::smatch part;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("## Entries")) break;
      if (std::regex_match(line, part, heading))
        group = part[1] == "Top level" ? "" : part[1].str() + ".";
      else if (std::regex_match(line, part, row))
        found[group + part[1].str()] = {part[2], part[3], part[4]};
    }
    return found;
  }();
  return all;
}

void expect_said(const std::string& key, const std::string& words) {
  const auto row = rows().find(key);
  ASSERT_NE(row, rows().end()) << key;
  EXPECT_NE(row->second.help.find(words), std::string::npos)
      << key << ": '" << row->second.help << "' says nothing of '" << words << "'";
}

class DocsPromises : public testing::Test {
 protected:
  Config small(const std::string& more = "") const {
    Config config = parse_config(
        "model: {name: lenet5}\ndata: {train_count: 40, test_count: 10, batch: 8, workers: 1}\n"
        "train: {epochs: 2}\noptimizer: {lr: 0.01}\nthreads: 1\n" +
            more,
        "C");
    config.run.dir = folder_.path("run");
    return config;
  }
  // Trains and returns the lines of metrics.
  std::vector<Metrics> trained(const Config& config) const {
    train(config, [](const std::string&) {}, {.overwrite = true});
    return read_metrics(config.run.dir + "/metrics.csv");
  }
  static std::vector<int64_t> steps_of(const std::vector<Metrics>& lines, std::string_view phase) {
    std::vector<int64_t> steps;
    for (const Metrics& line : lines)
      if (phase == line.phase) steps.push_back(line.step);
    return steps;
  }
  size_t checkpoints(const Config& config) const {
    size_t count = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(config.run.dir + "/checkpoints", error))
      count += entry.path().extension() == ".safetensors";
    return count;
  }
  // Writes two classes of pictures from the golden file and returns their folder.
  std::string pictures() const {
    golden::File file(TESSERA_SOURCE_DIR "/tests/golden/pictures.h5");
    for (const char* place :
         {"train/a/jpeg_rgb", "train/b/png_rgb", "test/a/jpeg_rgb", "test/b/png_rgb"}) {
      const fs::path path = folder_.path("pictures/" + std::string(place) + ".png");
      fs::create_directories(path.parent_path());
      const auto values = file.read("decode/" + path.stem().string() + "/file").values;
      std::ofstream(path, std::ios::binary) << std::string(values.begin(), values.end());
    }
    return folder_.path("pictures");
  }
  TemporaryFolder folder_;
};

// Computes mean and std directly.
Normalization computed(const Dataset& data) {
  const auto channels = static_cast<size_t>(data.channels());
  std::vector<double> sum(channels), square(channels);
  std::vector<uint8_t> image(static_cast<size_t>(data.shape().bytes()));
  for (int64_t i = 0; i < data.count(); ++i) {
    data.read(i, image.data());
    for (size_t k = 0; k < image.size(); ++k) {
      sum[k % channels] += image[k] / 255.0;
      square[k % channels] += image[k] / 255.0 * image[k] / 255.0;
    }
  }
  const double pixels = static_cast<double>(data.count()) * data.height() * data.width();
  Normalization result;
  for (size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / pixels;
    result.mean.push_back(static_cast<float>(mean));
    result.std.push_back(static_cast<float>(std::sqrt(square[c] / pixels - mean * mean)));
  }
  return result;
}

TEST_F(DocsPromises, EveryDefaultOfThePageIsTheDefault) {
  Config config;
  size_t checked = 0;
  for (const ConfigKey& key : config_keys(config)) {
    const auto row = rows().find(key.path);
    ASSERT_NE(row, rows().end()) << key.path;
    EXPECT_EQ(row->second.value, value_text(key)) << key.path;
    ++checked;
  }
  EXPECT_EQ(checked, rows().size());
}

TEST_F(DocsPromises, TheMeanIsTheDataSetsOwn) {
  expect_said("data.mean", "[]: the data set's own, measured if it has none");
  expect_said("data.std", "[]: the data set's own");
  ASSERT_EQ(rows().at("data.mean").value, "[]");
  const std::string folder =
      "model: {name: lenet5, classes: 2}\ndata: {name: image_folder, root: " + pictures() +
      ", image_size: 32}\n";
  const std::string file =
      "model: {name: mlp, widths: [4], classes: 3}\ndata: {name: hdf5, root: " TESSERA_SOURCE_DIR
      "/tests/golden/hdf5/h5py.h5, images: '/sets/{split}/pictures', "
      "labels: '/sets/{split}/kind'}\n";
  for (const std::string& text : {folder, file}) {
    Config config = parse_config(text, "C");
    config.run.dir = folder_.path("own");
    config.threads = 1;
    const TrainingSetup setup = set_up_training(config, [](const std::string&) {}, {});
    const Normalization real = computed(*setup.run.data().train);
    ASSERT_EQ(setup.run.normalization().mean.size(), real.mean.size()) << text;
    for (size_t c = 0; c < real.mean.size(); ++c) {
      EXPECT_NEAR(setup.run.normalization().mean[c], real.mean[c], 6e-5) << text;
      EXPECT_NEAR(setup.run.normalization().std[c], real.std[c], 6e-5) << text;
    }
    fs::remove_all(config.run.dir);
  }
}

TEST_F(DocsPromises, TheMeanOfImageNetHasAName) {
  expect_said("data.mean", "imagenet: ImageNet's, also for data.std");
  const Config config = parse_config("data: {mean: imagenet}", "C");
  EXPECT_EQ(config.data.mean, (std::vector<double>{0.485, 0.456, 0.406}));
  EXPECT_EQ(config.data.std, (std::vector<double>{0.229, 0.224, 0.225}));
}

TEST_F(DocsPromises, ClassesAreTheOutputsOfTheLastLayer) {
  expect_said("model.classes", "outputs of the last layer");
  expect_said("model.classes", "0: the classes of the data");
  EXPECT_EQ(rows().at("model.classes").value, "0");
  for (int64_t classes : {0, 13}) {
    Config config = small();
    config.model.classes = classes;
    const TrainingSetup setup = set_up_training(config, [](const std::string&) {}, {});
    const Tensors parameters = setup.run.session().store().parameters();
    EXPECT_EQ(parameters.back().shape().elements(),
              classes == 0 ? 10 : classes);  // the bias of the last layer
  }
}

TEST_F(DocsPromises, LengthsCarryTheirUnitButForZero) {
  EXPECT_NE(page().find("A bare 0 needs no unit"), std::string::npos);
  EXPECT_NE(page().find("Values and `none` may be quoted: JSON is a configuration too"),
            std::string::npos);
  EXPECT_EQ(parse_config("schedule: {warmup: 0}", "C").schedule.warmup.count, 0);
  EXPECT_THROW(parse_config("schedule: {warmup: 5}", "C"), ConfigError);
  const Config quoted = parse_config(
      "{\"schedule\": {\"name\": \"multistep\", \"warmup\": \"2ep\", \"milestones\": [\"3ep\", "
      "\"500st\"]}, "
      "\"data\": {\"batch\": 8, \"augment\": [{\"flip\": \"horizontal\"}], \"mean\": "
      "\"imagenet\"}, "
      "\"memory\": {\"limit\": \"2GiB\"}, \"train\": {\"steps\": \"none\"}, "
      "\"checkpoint\": {\"every\": \"10min\"}, \"deterministic\": true}",
      "C");
  EXPECT_EQ(quoted.schedule.warmup, (Duration{2, Duration::Unit::kEpochs}));
  EXPECT_EQ(quoted.schedule.milestones[1], (Duration{500, Duration::Unit::kSteps}));
  EXPECT_EQ(quoted.memory.limit->bytes, int64_t{2} << 30);
  EXPECT_EQ(quoted.checkpoint.every.seconds(), 600);
  EXPECT_FALSE(quoted.train.steps);
}

TEST_F(DocsPromises, ALengthAboveZeroIsAtLeastOneStep) {
  EXPECT_NE(
      page().find(
          "A duration above 0 is at least one step, and at most 1e15 steps or 1e9 of another unit"),
      std::string::npos);
  EXPECT_EQ((Duration{1e-6, Duration::Unit::kEpochs}).steps(100), 1);
  EXPECT_EQ((Duration{0, Duration::Unit::kEpochs}).steps(100), 0);
  EXPECT_NO_THROW(parse_config("train: {log_every: 1000000000ep}", "C"));
  EXPECT_THROW(parse_config("train: {log_every: 1000000001ep}", "C"), ConfigError);
  EXPECT_THROW(parse_config("train: {log_every: 1000000000000001st}", "C"), ConfigError);
}

TEST_F(DocsPromises, ZeroIsOnlyAtTheEnd) {
  expect_said("train.evaluate_every", "0: only at the end");
  expect_said("train.log_every", "0: at the end of epochs");
  expect_said("checkpoint.every", "0: only at the end");
  using Steps = std::vector<int64_t>;
  const Config at_the_end = small("checkpoint: {every: 0, keep: 5, best: none}\n");
  Config never = at_the_end;
  never.train.evaluate_every = never.train.log_every = Duration{};
  const auto lines = trained(never);
  EXPECT_EQ(steps_of(lines, "test"), Steps{10});
  EXPECT_EQ(steps_of(lines, "train"), (Steps{5, 10}));
  EXPECT_EQ(checkpoints(never), 1u);
  // The default evaluates each epoch.
  EXPECT_EQ(rows().at("train.evaluate_every").value, "1ep");
  EXPECT_EQ(steps_of(trained(at_the_end), "test"), (Steps{5, 10}));
}

TEST_F(DocsPromises, TheLineAtTheEndOfAnEpochIsOfAllOfIt) {
  expect_said("train.log_every", "the line at the end of an epoch covers the whole epoch");
  Config config = small("schedule: {name: constant}\n");
  config.train.log_every = {3, Duration::Unit::kSteps};
  config.train.epochs = 1;
  const auto some = trained(config);
  config.train.log_every = {1, Duration::Unit::kSteps};
  const auto each = trained(config);
  // Five batches of eight images: a line for each of the first four, then one for the whole epoch.
  ASSERT_EQ(steps_of(each, "train"), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  ASSERT_EQ(steps_of(some, "train"), (std::vector<int64_t>{3, 5}));
  double three = 0;
  for (int i = 0; i < 3; ++i) three += each[static_cast<size_t>(i)].loss / 3;
  EXPECT_NEAR(some[0].loss, three, 1e-6);
  EXPECT_NEAR(some[1].loss, each[4].loss, 1e-6);
  // The epoch's loss is the mean of all five, so the fifth loss follows from the others.
  const double fifth = 5 * each[4].loss - 3 * three - each[3].loss;
  Config last = config;
  last.train.epochs = 0.8;  // ends after the fourth
  EXPECT_NEAR(trained(last)[3].loss, (3 * three + each[3].loss) / 4, 1e-6);
  EXPECT_GT(fifth, 0);
  EXPECT_LT(fifth, 10);
}

TEST_F(DocsPromises, ZeroCheckpointsAreNone) {
  expect_said("checkpoint.keep", "0: write none");
  Config config = small();
  config.checkpoint.keep = 0;
  trained(config);
  EXPECT_EQ(checkpoints(config), 0u);
}

TEST_F(DocsPromises, ZeroIsAllOfThem) {
  expect_said("data.train_count", "0: all");
  expect_said("threads", "0: all cores");
  expect_said("data.image_size", "0: 32");
  EXPECT_EQ(image_shape(DataConfig()), (ImageShape{32, 32, 3}));
  DataSource source;
  source.name = "image_folder";
  source.root = pictures();
  source.image_size = 8;
  EXPECT_EQ(open_data(source).train->count(), 2);
  const SettingsScope all({.threads = 0});
  EXPECT_EQ(cpu_context().pool().size(), available_cores());
}

TEST_F(DocsPromises, ChannelsOfPictures) {
  expect_said("data.channels", "1: gray, 3: color, auto: 1 if all pictures are stored in gray");
  EXPECT_EQ(rows().at("data.channels").value, "3");
  for (const auto& [given, channels] : {std::pair("1", 1), {"3", 3}, {"auto", 3}}) {
    const Config config = parse_config(
        "model: {classes: 2, name: lenet5}\ndata: {name: image_folder, image_size: 32, root: " +
            pictures() + ", channels: " + given + "}",
        "C");
    EXPECT_EQ(image_shape(config.data).channels, channels) << given;
    EXPECT_EQ(open_data(data_source(config)).train->channels(), channels) << given;
  }
}

}  // namespace
}  // namespace tessera
