#include "tessera/models/metrics.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/models/config.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("run_folder_" + std::to_string(getpid()))) {
    config_.run.dir = (root_ / "deep/er").string();
  }
  ~RunFolderTest() override { std::filesystem::remove_all(root_); }

  std::filesystem::path root_;
  Config config_;
};

TEST_F(RunFolderTest, WritesEachLineAtOnce) {
  RunFolder folder(config_);
  folder.write({0.25, 50, "train", 1.5, 0.625, 0.1, 4096});
  // Read while the folder is still open: the lines must be there already.
  EXPECT_EQ(read(config_.run.dir + "/metrics.csv"),
            "epoch,step,phase,loss,accuracy,lr,images_per_second\n"
            "0.25,50,train,1.5,0.625,0.1,4096\n");
  EXPECT_EQ(read(config_.run.dir + "/metrics.jsonl"),
            "{\"epoch\": 0.25, \"step\": 50, \"phase\": \"train\", \"loss\": 1.5, \"accuracy\": "
            "0.625, \"lr\": 0.1, \"images_per_second\": 4096}\n");
}

TEST_F(RunFolderTest, ValuesThatAreNotFiniteLeaveValidFiles) {
  RunFolder folder(config_);
  folder.write({1, 100, "test", std::numeric_limits<double>::quiet_NaN(),
                std::numeric_limits<double>::infinity(), 0, 0});
  EXPECT_NE(read(config_.run.dir + "/metrics.csv").find("\n1,100,test,,,0,0\n"), std::string::npos);
  EXPECT_NE(read(config_.run.dir + "/metrics.jsonl").find("\"loss\": null, \"accuracy\": null"),
            std::string::npos);
}

TEST_F(RunFolderTest, KeepsTheResolvedConfigurationAndStartsMetricsAnew) {
  { RunFolder(config_).write({}); }
  RunFolder folder(config_);
  EXPECT_EQ(read(config_.run.dir + "/metrics.jsonl"), "");
  EXPECT_EQ(print_config(load_config(resolved_config_path(config_.run.dir))),
            print_config(config_));
  EXPECT_EQ(folder.weights_path(), weights_path(config_.run.dir));
}

TEST_F(RunFolderTest, APlaceThatCannotBeWrittenIsAnError) {
  config_.run.dir = "/dev/null/run/deep";
  try {
    RunFolder folder(config_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(config_.run.dir), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
