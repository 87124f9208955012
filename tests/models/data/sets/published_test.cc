#include "tessera/models/data/sets/published.h"

#include <set>

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Checks each entry for the properties that the reader of the table relies on.
TEST(PublishedTest, EntriesAreWhole) {
  std::set<std::string> names;
  for (const PublishedSet& set : published_sets()) {
    SCOPED_TRACE(set.name);
    EXPECT_TRUE(names.insert(set.name).second);
    EXPECT_EQ(set.name.find('-'), std::string::npos);  // `data fetch` accepts '-' for '_'
    EXPECT_EQ(find_published(set.name), &set);
    EXPECT_EQ(set.normalization.mean.size(), static_cast<size_t>(set.shape.channels));
    EXPECT_EQ(set.normalization.std.size(), static_cast<size_t>(set.shape.channels));
    ASSERT_FALSE(set.labels.empty());
    for (const PublishedLabels& labels : set.labels) {
      EXPECT_GT(labels.classes, 1);
      EXPECT_EQ(labels.names.size(),
                labels.names_file.empty() ? static_cast<size_t>(labels.classes) : 0u);
    }
    EXPECT_LE(set.labels.front().classes, set.labels.back().classes);
    ASSERT_FALSE(set.train.empty() || set.test.empty());
    if (set.format == PublishedFormat::kIdx) {
      EXPECT_EQ(set.train.size(), 2u);
      EXPECT_EQ(set.test.size(), 2u);
    } else {
      EXPECT_EQ(set.shape, (ImageShape{32, 32, 3}));
      EXPECT_LE(set.labels.size(), 2u);
      EXPECT_EQ(set.train_count % static_cast<int64_t>(set.train.size()), 0);
      EXPECT_EQ(set.test_count % static_cast<int64_t>(set.test.size()), 0);
    }
  }
  EXPECT_EQ(find_published("synthetic"), nullptr);
}

// Downloads are the files that are read, or an archive of them.
TEST(PublishedTest, DownloadsAreWhatIsRead) {
  for (const PublishedSet& set : published_sets()) {
    SCOPED_TRACE(set.name);
    std::set<std::string> read(set.train.begin(), set.train.end());
    read.insert(set.test.begin(), set.test.end());
    for (const std::string& url : set.mirrors) EXPECT_TRUE(url.ends_with('/')) << url;
    EXPECT_FALSE(set.mirrors.empty());
    for (const PublishedFile& file : set.downloads) {
      EXPECT_GT(file.bytes, 0);
      EXPECT_EQ(file.sha256.size(), 64u);
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), std::string::npos);
      if (file.name.ends_with(".tar.gz")) {
        read.clear();
      } else {
        EXPECT_EQ(read.erase(file.name.substr(0, file.name.rfind(".gz"))), 1u) << file.name;
      }
    }
    EXPECT_TRUE(read.empty()) << *read.begin();
  }
}

TEST(PublishedTest, MembersOfAnArchive) {
  EXPECT_EQ(find_published("cifar100")->members(),
            (std::vector<std::string>{"cifar-100-binary/train.bin", "cifar-100-binary/test.bin",
                                      "cifar-100-binary/coarse_label_names.txt",
                                      "cifar-100-binary/fine_label_names.txt"}));
}

}  // namespace
}  // namespace tessera
