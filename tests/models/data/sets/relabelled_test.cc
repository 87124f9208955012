#include "tessera/models/data/sets/subset.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::expect_error;

std::shared_ptr<const Dataset> three() {
  return std::make_shared<MemoryDataset>(DatasetInfo{.name = "d",
                                                     .shape = {1, 1, 1},
                                                     .count = 3,
                                                     .classes = 3,
                                                     .class_names = {},
                                                     .normalization = {}},
                                         std::vector<uint8_t>{7, 8, 9},
                                         std::vector<int32_t>{2, 0, 2},
                                         std::vector<std::string>{"note"});
}

TEST(RelabelledTest, ChangesLabelsAlone) {
  const auto data = relabelled(three(), {4, -1, 1}, 5, {"a", "b", "c", "d", "e"});
  EXPECT_EQ(data->classes(), 5);
  EXPECT_EQ(data->class_names()[4], "e");
  EXPECT_EQ(data->name(), "d");
  EXPECT_EQ(data->notes(), std::vector<std::string>{"note"});
  const int64_t labels[] = {1, 4, 1};
  for (int64_t i = 0; i < 3; ++i) {
    uint8_t pixel = 0;
    data->read(i, &pixel);
    EXPECT_EQ(pixel, 7 + i);
    EXPECT_EQ(data->label(i), labels[i]);
  }
}

TEST(RelabelledTest, EveryLabelThatOccursNeedsOne) {
  expect_error<Error>([] { relabelled(three(), {0, 1, -1}, 3, {}); }, {"label 2 of image 0"});
  expect_error<Error>([] { relabelled(three(), {0, 1}, 3, {}); }, {"label 2 of image 0"});
  expect_error<Error>([] { relabelled(three(), {0, 1, 3}, 3, {}); }, {"label 2 of image 0"});
}

}  // namespace
}  // namespace tessera
