// Evaluations of a run on data that it was not trained with.

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tessera/models/data/sets/packed.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/study/evaluate_run.h"
#include "tessera/models/training/trainer.h"
#include "tessera/tests/models/data/data_file_util.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using tessera::testing::expect_error;

class OtherData : public ::testing::Test {
 protected:
  OtherData() {
    config_.model.name = "mlp";
    config_.model.widths = {16};
    config_.data.batch = 20;
    config_.data.image_size = 16;
    config_.data.train_count = 100;
    config_.data.test_count = 50;
    config_.optimizer.lr = 0.02;
    config_.train.epochs = 3;
    config_.run.dir = folder_.path("run");
  }

  DataSplit own() const {
    return open_data({.name = "synthetic",
                      .seed = config_.seed,
                      .train_count = 10,
                      .test_count = 50,
                      .image_size = 16});
  }
  RunEvaluation evaluate(const std::string& data, const std::vector<std::string>& overrides = {},
                         const std::string& checkpoint = "") {
    said_.clear();
    return evaluate_run({config_.run.dir, checkpoint},
                        {.data = data, .overrides = overrides, .report = true},
                        [this](const std::string& line) { said_ += line + "\n"; });
  }
  // Writes a pack of the run's own test images: class c has name names[c] and label places[c].
  std::string pack(const char* name, const std::vector<int64_t>& places,
                   const std::vector<std::string>& names) const {
    const DataSplit data = own();
    const auto moved = [&](const std::shared_ptr<const Dataset>& all) {
      std::vector<std::string> by_label(names.size());
      for (size_t c = 0; c < names.size(); ++c) by_label[static_cast<size_t>(places[c])] = names[c];
      return relabelled(all, places, static_cast<int>(names.size()), by_label);
    };
    write_packed({moved(data.train), moved(data.test)}, folder_.path(name));
    return folder_.path(name);
  }

  const TemporaryFolder folder_;
  Config config_;
  std::string said_;
};

TEST_F(OtherData, ClassesGoByNameAndFiguresStayTheSame) {
  const TrainResult trained = train(config_, [](const std::string&) {}, {});
  const RunEvaluation same = evaluate("");
  EXPECT_EQ(same.test_accuracy, trained.test_accuracy);
  EXPECT_EQ(same.test_loss, trained.test_loss);
  EXPECT_EQ(same.confusion.counts, trained.confusion.counts);
  EXPECT_EQ(same.calibration.images(), 50);
  EXPECT_EQ(said_.find("classes are matched"), std::string::npos) << said_;
  const std::vector<std::string> names = own().test->class_names();
  EXPECT_EQ(same.class_names, names);

  const std::vector<int64_t> places = {3, 9, 0, 1, 7, 8, 2, 5, 4, 6};
  const RunEvaluation moved = evaluate(pack("moved.h5", places, names));
  EXPECT_NE(said_.find("by name: images of 10 of the run's 10"), said_.npos) << said_;
  EXPECT_EQ(moved.test_accuracy, trained.test_accuracy);
  EXPECT_EQ(moved.test_loss, trained.test_loss);
  EXPECT_EQ(moved.confusion.counts, trained.confusion.counts);
  EXPECT_EQ(moved.class_names, names);
  EXPECT_EQ(moved.calibration.error(), same.calibration.error());

  // Without names, classes go by their numbers, which are wrong here.
  const DataSplit data = own();
  const auto nameless = [&](const std::shared_ptr<const Dataset>& all) {
    return relabelled(all, places, 10, {});
  };
  write_packed({nameless(data.train), nameless(data.test)}, folder_.path("nameless.h5"));
  const TrainResult wrong = evaluate(folder_.path("nameless.h5"));
  EXPECT_NE(said_.find("by number, because hdf5 test has no class names"), said_.npos) << said_;
  EXPECT_NE(wrong.test_loss, trained.test_loss);
}

TEST_F(OtherData, TheReportIsOfTheOtherData) {
  train(config_, [](const std::string&) {}, {});
  const std::string path =
      pack("moved.h5", {1, 0, 2, 3, 4, 5, 6, 7, 8, 9}, own().test->class_names());
  const RunEvaluation evaluation = evaluate(path);
  ASSERT_NE(evaluation.report, nullptr);
  const RunReport& report = *evaluation.report;
  EXPECT_NE(report.title.find(path), std::string::npos) << report.title;
  EXPECT_EQ(report.confusion.counts, evaluation.confusion.counts);
  EXPECT_EQ(report.calibration.error(), evaluation.calibration.error());
  EXPECT_EQ(report.classes, own().test->class_names());
  EXPECT_EQ(report.top1, evaluation.test_accuracy);
  EXPECT_EQ(report.top5, evaluation.test_top5);
  ASSERT_FALSE(report.mistakes.empty());
  for (const Misclassification& mistake : report.mistakes) {
    EXPECT_EQ(mistake.truth, own().test->label(mistake.sample));
    EXPECT_EQ(mistake.picture.rfind("data:image/png;base64,", 0), 0u);
  }
  EXPECT_EQ(evaluate_run({config_.run.dir}, {}, [](const std::string&) {}).report, nullptr);
}

TEST_F(OtherData, AClassThatTheRunDoesNotKnowIsNamedWithTheNearest) {
  train(config_, [](const std::string&) {}, {});
  std::vector<std::string> names = own().test->class_names();
  names[0] = "dsik", names[4] = "elephant";
  const std::string path = pack("misspelt.h5", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, names);
  expect_error<DataError>(
      [&] { evaluate(path); },
      {path, "'dsik' (did you mean 'disk'?), 'elephant';", "the run has disk, ring"});
}

// The run stores a name that is not UTF-8 in another form.
TEST_F(OtherData, NamesThatAreNotUtf8AreFound) {
  const std::vector<std::string> names = {"ant",
                                          "b\xe9"
                                          "e"};
  Config config;
  config.model.classes = 2;
  const std::string told = inference_json(config, {1, 1, 1}, {{0.5f}, {0.25f}}, names).text();
  const auto data = [&](const std::vector<std::string>& of) {
    DatasetInfo info;
    info.name = "d", info.shape = {1, 1, 1}, info.count = 1, info.classes = 2;
    info.class_names = of;
    return std::make_shared<MemoryDataset>(info, std::vector<uint8_t>{7}, std::vector<int32_t>{0});
  };
  const Print quiet = [](const std::string&) {};
  EXPECT_EQ(under_classes_of(config, told, data(names), quiet)->label(0), 0);
  EXPECT_EQ(under_classes_of(config, told, data({names[1], names[0]}), quiet)->label(0), 1);
}

TEST_F(OtherData, SomeOfTheClassesWillDo) {
  const TrainResult trained = train(config_, [](const std::string&) {}, {});
  const DataSplit data = own();
  const auto some = [](const std::shared_ptr<const Dataset>& all) {
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < all->count(); ++i)
      if (all->label(i) == 2 || all->label(i) == 6) chosen.push_back(i);
    std::vector<int64_t> labels(10, -1);
    labels[2] = 1, labels[6] = 0;
    return relabelled(part(all, "some", std::ssize(chosen), chosen, {}, false), labels, 3,
                      {all->class_names()[6], all->class_names()[2], "without images"});
  };
  write_packed({some(data.train), some(data.test)}, folder_.path("some.h5"));
  const TrainResult result = evaluate(folder_.path("some.h5"));
  EXPECT_NE(said_.find("by name: images of 2 of the run's 10"), said_.npos) << said_;
  for (int64_t t = 0; t < 10; ++t)
    for (int64_t p = 0; p < 10; ++p)
      EXPECT_EQ(result.confusion.count(t, p), t == 2 || t == 6 ? trained.confusion.count(t, p) : 0);
}

TEST_F(OtherData, WhatChoseTheBestIsSaidOfTheRun) {
  config_.checkpoint.keep = 10;
  train(config_, [](const std::string&) {}, {});
  const std::string path =
      pack("same.h5", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, own().test->class_names());
  EXPECT_FALSE(evaluate(path, {}, "best").chosen_on_test);
  EXPECT_NE(said_.find("the best on the test images of the training"), said_.npos) << said_;
  EXPECT_TRUE(evaluate("", {}, "best").chosen_on_test);
}

// Another normalization would give other inputs and thus another loss.
TEST_F(OtherData, TheNormalizationStaysTheRuns) {
  config_.data.mean = {0.1, 0.2, 0.3};
  config_.data.std = {0.5, 0.6, 0.7};
  const TrainResult trained = train(config_, [](const std::string&) {}, {});
  const std::string path =
      pack("same.h5", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, own().test->class_names());
  EXPECT_EQ(evaluate(path).test_loss, trained.test_loss);
  EXPECT_NE(evaluate(path, {"data.mean=[0.4, 0.5, 0.6]"}).test_loss, trained.test_loss);
}

TEST_F(OtherData, ImagesOfAnotherSizeAreTold) {
  train(config_, [](const std::string&) {}, {});
  const DataSplit large = open_data(
      {.name = "synthetic", .seed = 1, .train_count = 10, .test_count = 10, .image_size = 20});
  write_packed(large, folder_.path("large.h5"));
  const char* told = "trained with images [16x16x3], but those of hdf5 test are [20x20x3]";
  expect_error<CheckpointError>([&] { evaluate(folder_.path("large.h5")); },
                                {"fc1.weight", "\nthe run was", told});
  // resnet20 accepts any image size.
  config_.model.name = "resnet20";
  config_.model.widths = {};
  config_.train.steps = 1;
  config_.run.dir = folder_.path("other");
  train(config_, [](const std::string&) {}, {});
  EXPECT_EQ(evaluate(folder_.path("large.h5")).test_images, 10);
  EXPECT_NE(said_.find(told), said_.npos) << said_;
  evaluate("");
  EXPECT_EQ(said_.find("was trained with images"), said_.npos) << said_;
}

TEST_F(OtherData, OverridesSayWhatIsThere) {
  const ImageShape image{16, 16, 3};
  const std::string told = inference_json(config_, image, {{0.5f}, {0.25f}}, {"a"}).text();
  const std::string at = folder_.path("with \"quotes\"");
  std::filesystem::create_directories(at);
  const auto overrides = data_overrides(at, config_, told);
  for (const char* wanted :
       {"data.name=image_folder", "~data.test_count", "~data.train_count", "~data.validation",
        "data.image_size=16", "data.channels=3", "data.mean=[0.5]", "data.std=[0.25]"})
    EXPECT_NE(std::find(overrides.begin(), overrides.end(), wanted), overrides.end()) << wanted;
  Config run = config_;
  run.data.mean = run.data.std = {0.5, 0.5, 0.5};
  const Config read =
      parse_config("data: {test_count: 5, validation: 10%}", "file", data_overrides(at, run, told));
  EXPECT_EQ(read.data.root, at);
  EXPECT_EQ(read.data.test_count, 0);
  EXPECT_FALSE(read.data.validation.any());
  EXPECT_EQ(read.data.channels, Channels::kColour);
  // An image folder of the same kind as the run's keeps the larger test size.
  run.data.name = "image_folder";
  run.data.image_size = 20;
  const auto same_kind = data_overrides(at, run, told);
  for (const std::string& text : same_kind) EXPECT_EQ(text.find("image_size"), text.npos) << text;
  std::ofstream(folder_.path("file")) << "x";
  EXPECT_EQ(data_overrides(folder_.path("file"), run, told)[0], "data.name=hdf5");
  EXPECT_EQ(data_overrides("cifar10=a b", run, told)[1], "data.root=\"a b\"");
}

TEST_F(OtherData, WhatIsNotThereIsNamed) {
  const std::string told = inference_json(config_, {16, 24, 3}, {{0.5f}, {0.25f}}, {}).text();
  const auto refused = [&](const std::string& data, const std::string& inference) {
    return [&, data, inference] { data_overrides(data, config_, inference); };
  };
  expect_error<DataError>(refused("/no/where", told), {"'/no/where'", "NAME=PATH"});
  expect_error<DataError>(refused("cifar10", told), {"cifar10=PATH"});
  expect_error<ConfigError>(refused("cifra10=x", told), {"'cifra10'", "did you mean 'cifar10'?"});
  expect_error<ConfigError>(refused("mnist=x", told),
                            {"mnist have one channel", "those of the run have 3"});
  expect_error<ConfigError>(refused(folder_.path(""), told), {"16x24", "HDF5"});
  expect_error<ConfigError>(refused("cifar10=x", ""), {"normalization", "data.mean"});
}

}  // namespace
}  // namespace tessera
