#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/models/run/metrics.h"

namespace tessera {
namespace {

// Returns the matrix of tests/golden/evaluation.py, which printed the expected values below.
ConfusionMatrix example() {
  ConfusionMatrix m(6);
  m.counts = {7, 2, 0, 1, 0, 0,   //
              1, 3, 1, 0, 0, 0,   //
              0, 0, 4, 0, 0, 0,   //
              0, 0, 0, 0, 0, 0,   // no images, only predicted
              2, 0, 1, 0, 0, 0,   // never correct
              0, 0, 0, 0, 0, 0};  // does not occur
  return m;
}

TEST(ClassFiguresTest, AreThoseOfScikitLearn) {
  const ClassReport report = class_report(example());
  const double precision[] = {0.7, 0.6, 0.666666666667, 0, 0}, recall[] = {0.7, 0.6, 1, 0, 0},
               f1[] = {0.7, 0.6, 0.8, 0, 0};
  const int64_t images[] = {10, 5, 4, 0, 3};
  ASSERT_EQ(report.classes.size(), 5u);
  for (size_t c = 0; c < 5; ++c) {
    EXPECT_EQ(report.classes[c].label, static_cast<int64_t>(c));
    EXPECT_EQ(report.classes[c].images, images[c]) << c;
    EXPECT_NEAR(report.classes[c].precision(), precision[c], 1e-12) << c;
    EXPECT_NEAR(report.classes[c].recall(), recall[c], 1e-12) << c;
    EXPECT_NEAR(report.classes[c].f1(), f1[c], 1e-12) << c;
  }
  EXPECT_EQ(report.images, 22);
  EXPECT_EQ(report.correct, 14);
  EXPECT_NEAR(report.macro.precision, 0.393333333333, 1e-12);
  EXPECT_NEAR(report.macro.recall, 0.46, 1e-12);
  EXPECT_NEAR(report.macro.f1, 0.42, 1e-12);
  EXPECT_NEAR(report.weighted.precision, 0.575757575758, 1e-12);
  EXPECT_NEAR(report.weighted.recall, 0.636363636364, 1e-12);
  EXPECT_NEAR(report.weighted.f1, 0.6, 1e-12);
}

TEST(ClassFiguresTest, OfNoImagesAreNone) {
  const ClassReport report = class_report(ConfusionMatrix(3));
  EXPECT_TRUE(report.classes.empty());
  EXPECT_EQ(report.macro.f1, 0);
  EXPECT_EQ(report.weighted.f1, 0);
}

TEST(ClassFiguresTest, ThePairsThatAreConfusedMostComeFirst) {
  const std::vector<ConfusedPair> pairs = most_confused(example(), 4);
  const int64_t expected[][3] = {{0, 1, 2}, {4, 0, 2}, {0, 3, 1}, {1, 0, 1}};
  const double shares[] = {0.2, 2.0 / 3, 0.1, 0.2};
  ASSERT_EQ(pairs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pairs[i].truth, expected[i][0]) << i;
    EXPECT_EQ(pairs[i].predicted, expected[i][1]) << i;
    EXPECT_EQ(pairs[i].images, expected[i][2]) << i;
    EXPECT_NEAR(pairs[i].share, shares[i], 1e-12) << i;
  }
  EXPECT_EQ(most_confused(example(), 100).size(), 6u);
}

std::string class_table(const ClassReport& report, const std::vector<std::string>& names,
                        size_t most = 20) {
  Report table;
  add_classes(table, report, names, most);
  return table.text();
}

TEST(ClassFiguresTest, TheTableHasAllClassesOrTheWorst) {
  const ClassReport report = class_report(example());
  const std::vector<std::string> names = {"cat", "b\u00e4r", "eel", "fox", "gnu", "hen"};
  EXPECT_EQ(class_table(report, names),
            "class             images  precision   recall      F1\n"
            "cat                   10     70.0 %   70.0 %  70.0 %\n"
            "b\u00e4r                    5     60.0 %   60.0 %  60.0 %\n"
            "eel                    4     66.7 %  100.0 %  80.0 %\n"
            "fox                    0      0.0 %    0.0 %   0.0 %\n"
            "gnu                    3      0.0 %    0.0 %   0.0 %\n"
            "macro average         22     39.3 %   46.0 %  42.0 %\n"
            "weighted average      22     57.6 %   63.6 %  60.0 %\n");
  ConfusionMatrix many(30);
  for (int64_t c = 0; c < 30; ++c)
    for (int64_t i = 0; i < 30; ++i) many.add(c, i <= c ? c : 0);
  const std::string table = class_table(class_report(many), {});
  EXPECT_NE(table.find("the 10 of 30 classes with the lowest F1; --all-classes shows all\n"),
            table.npos)
      << table;
  EXPECT_NE(table.find("\n1                     30    100.0 %    6.7 %  12.5 %\n"), table.npos)
      << table;
  EXPECT_EQ(table.find("\n29 "), table.npos) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 10 + 2 + 1);
  // Classes without images are listed as the worst only if there are no others.
  ConfusionMatrix part(30);
  for (int64_t c = 15; c < 30; ++c) part.add(c, c - 15);
  const std::string worst = class_table(class_report(part), {});
  EXPECT_NE(worst.find("\n15 "), worst.npos) << worst;
  EXPECT_EQ(worst.find("\n0 "), worst.npos) << worst;
  const std::string all = class_table(class_report(many), {}, 30);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1 + 30 + 2);
}

}  // namespace
}  // namespace tessera
