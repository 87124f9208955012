#include "tessera/runtime/cuda/plan_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/runtime/files/sha256.h"
#include "tessera/runtime/log.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

const CachedPlans kPlan{{"{\"a\": \"plan\"}", 34, 1280, 0b1001, 12.5}, {"{}", 1, 0, 0, 30}};
const CachedPlans kOther{{"{\"another\": \"plan\"}", 28, 0, 0, 0}};

class PlanCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel, std::string_view text) { warnings_.emplace_back(text); });
  }
  void TearDown() override { set_log_sink({}); }

  std::string entry(const std::string& key) const {
    std::stringstream text;
    text << std::ifstream(PlanCache(folder()).file_of(key)).rdbuf();
    return text.str();
  }
  void write_entry(const std::string& key, const std::string& text) const {
    std::ofstream(PlanCache(folder()).file_of(key)) << text;
  }
  std::string folder() const { return folder_.path("tessera"); }
  size_t files() const {
    size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder()))
      count += file.is_regular_file();
    return count;
  }
  // Expects that a new cache does not find the entry, warns once, and keeps another one there.
  void expect_refused(const std::string& key, const std::string& why) {
    warnings_.clear();
    PlanCache cache(folder());
    EXPECT_FALSE(cache.find(key));
    EXPECT_FALSE(cache.find(key));
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find(why), std::string::npos) << warnings_[0];
    EXPECT_NE(warnings_[0].find(cache.file_of(key)), std::string::npos) << warnings_[0];
    cache.keep(key, kOther);
    EXPECT_EQ(cache.find(key), kOther);
    EXPECT_EQ(warnings_.size(), 1u);
  }

  std::vector<std::string> warnings_;

 private:
  tessera::testing::TempFolder folder_;
};

TEST_F(PlanCacheTest, WhatIsKeptIsFoundByTheNextProcess) {
  PlanCache first(folder());
  EXPECT_FALSE(first.find("conv a"));
  first.keep("conv a", kPlan);
  first.keep("conv b", kOther);
  PlanCache second(folder());
  EXPECT_EQ(second.find("conv a"), kPlan);
  EXPECT_EQ(second.find("conv b"), kOther);
  EXPECT_FALSE(second.find("conv c"));
  EXPECT_EQ(files(), 2u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PlanCacheTest, EveryDamagedByteIsNoticed) {
  PlanCache(folder()).keep("key", kPlan);
  const std::string good = entry("key");
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    write_entry("key", bad);
    EXPECT_FALSE(PlanCache(folder()).find("key")) << "byte " << i;
  }
  std::string bad = good;
  bad[good.size() / 2] ^= 1;
  write_entry("key", bad);
  expect_refused("key", "is damaged or truncated");
}

TEST_F(PlanCacheTest, OneThatIsCutOffIsNoticed) {
  PlanCache(folder()).keep("key", kPlan);
  const std::string good = entry("key");
  for (const size_t length : {size_t{0}, size_t{5}, good.size() / 2, good.size() - 1}) {
    write_entry("key", good.substr(0, length));
    expect_refused("key", "is damaged or truncated");
  }
}

// Intact and sealed, but of another key: a file that was renamed, or two keys of one name.
TEST_F(PlanCacheTest, AnEntryOfAnotherKeyIsNoticed) {
  PlanCache cache(folder());
  cache.keep("key", kPlan);
  std::filesystem::rename(cache.file_of("key"), cache.file_of("asked"));
  expect_refused("asked", "belongs to another plan");
}

// The digest of the entry is right.
TEST_F(PlanCacheTest, AnEntryOfAnotherFormatIsNoticed) {
  PlanCache(folder()).keep("key", kPlan);
  std::string text = entry("key").substr(65);
  const size_t at = text.find("\"format\":2");
  ASSERT_NE(at, std::string::npos) << text;
  text[at + 9] = '1';
  write_entry("key", sha256_of(text) + '\n' + text);
  expect_refused("key", "belongs to another version");
}

TEST_F(PlanCacheTest, TheFirstBadEntryAloneIsAWarning) {
  PlanCache(folder()).keep("a", kPlan);
  write_entry("a", "nothing");
  write_entry("b", "nothing");
  PlanCache cache(folder());
  EXPECT_FALSE(cache.find("a"));
  EXPECT_FALSE(cache.find("b"));
  cache.refuse("c", "cuDNN does not accept it");
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(PlanCacheTest, AFolderThatCannotBeWrittenIsAWarning) {
  std::ofstream(folder()) << "a file where the folder should be";
  PlanCache cache(folder());
  cache.keep("a", kPlan);
  cache.keep("b", kPlan);
  EXPECT_FALSE(cache.find("a"));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(folder()), std::string::npos) << warnings_[0];
}

TEST_F(PlanCacheTest, AFullDiskLeavesNothingBehind) {
  class Full : public FileSystem {
    ssize_t write(int, const void*, size_t) override { return errno = ENOSPC, -1; }
  } full;
  PlanCache cache(folder(), full);
  cache.keep("a", kPlan);
  EXPECT_EQ(files(), 0u);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(PlanCacheTest, OffKeepsNothing) {
  PlanCache cache("");
  cache.keep("a", kPlan);
  EXPECT_FALSE(cache.find("a"));
  EXPECT_TRUE(warnings_.empty());
}

// Several processes read and write the same entries: an entry that is found is always whole.
TEST_F(PlanCacheTest, ProcessesShareAFolder) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t id = fork();
    if (id != 0) {
      children.push_back(id);
      continue;
    }
    PlanCache cache(folder());
    bool good = true;
    for (int i = 0; i < 300; ++i) {
      const std::string key = "key " + std::to_string(i % 3);
      cache.keep(key, child % 2 == 0 ? kPlan : kOther);
      const auto found = cache.find(key);
      good = good && found && (*found == kPlan || *found == kOther);
    }
    _exit(good ? 0 : 1);
  }
  for (const pid_t id : children) {
    int status = 0;
    waitpid(id, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files(), 3u) << "something was left behind";
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(PlanCacheFolder, FollowsTheEnvironment) {
  const Variable home("HOME", "/home/ada");
  const Variable unset("XDG_CACHE_HOME", nullptr), own("TESSERA_CACHE", nullptr);
  EXPECT_EQ(plan_cache_folder(), "/home/ada/.cache/tessera");
  const Variable caches("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(plan_cache_folder(), "/caches/tessera");
  {
    const Variable named("TESSERA_CACHE", "/plans");
    EXPECT_EQ(plan_cache_folder(), "/plans");
  }
  const Variable off("TESSERA_CACHE", "off");
  EXPECT_EQ(plan_cache_folder(), "");
}

TEST(PlanCacheFolder, WithoutAHomeNothingIsKept) {
  const Variable home("HOME", nullptr), caches("XDG_CACHE_HOME", nullptr),
      own("TESSERA_CACHE", nullptr);
  EXPECT_EQ(plan_cache_folder(), "");
}

}  // namespace
}  // namespace tessera
