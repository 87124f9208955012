#include "tessera/memory/plan_csv.h"

#include "random_problem.h"
#include <gtest/gtest.h>

#include "tessera/memory/plan_draw.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

std::string error_of(std::string_view text) {
  try {
    read_plan_csv(text, "f.csv");
  } catch (const DataError& error) {
    return error.what();
  }
  return "none";
}

TEST(PlanCsv, ReadsTheExampleOfMiniMalloc) {
  const Problem problem = read_plan_csv("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n");
  ASSERT_EQ(problem.buffers.size(), 2u);
  EXPECT_EQ(problem.buffers[1], (Interval{3, 9, 4, 1, -1, {}, -1, "b2"}));
}

TEST(PlanCsv, RoundTrips) {
  for (uint32_t seed = 0; seed < 32; ++seed) {
    const Problem problem = testing::random_problem(
        seed, 30, 50, 300,
        {(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, (seed & 8) != 0, (seed & 16) != 0});
    EXPECT_EQ(read_plan_csv(write_plan_csv(problem)), problem) << "seed " << seed;
  }
}

TEST(PlanCsv, WritesAPlanAsTheOffsetColumn) {
  const Problem problem{{{0, 3, 4, 1, -1, {}, -1, "a"}, {3, 9, 4, 8, -1, {{4, 5}, {6, 8}}}}};
  const Plan plan{{0, 8}, 12};
  EXPECT_EQ(write_plan_csv(problem, &plan),
            "id,lower,upper,size,alignment,gaps,offset\n"
            "a,0,3,4,1,,0\n"
            "1,3,9,4,8,4-5 6-8,8\n");
}

TEST(PlanCsv, TakesOtherNamesOrdersAndLineEnds) {
  const Problem problem = read_plan_csv(
      "\xef\xbb\xbfsize, start ,end,buffer_id,hint,gaps\r\n"
      "4,0,3,x,-1,1-2\r\n"
      "\r\n"
      " 8 ,-5,-2,y,16,");
  ASSERT_EQ(problem.buffers.size(), 2u);
  EXPECT_EQ(problem.buffers[0], (Interval{0, 4, 4, 1, -1, {{1, 3}}, -1, "x"}));
  EXPECT_EQ(problem.buffers[1], (Interval{-5, -1, 8, 1, -1, {}, 16, "y"}));
}

TEST(PlanCsv, SaysWhereItIsWrong) {
  const std::string header = "id,lower,upper,size\n";
  EXPECT_EQ(error_of(""),
            "f.csv:0:1: a header line is needed (id,lower,upper,size), the file is empty");
  EXPECT_EQ(error_of("id,lower,upper\n"), "f.csv:1:1: the column 'size' is missing");
  EXPECT_EQ(error_of("id,lower,upper,size,colour\n").substr(0, 37),
            "f.csv:1:21: unknown column 'colour'; ");
  EXPECT_EQ(error_of("id,lower,start,upper,size\n"),
            "f.csv:1:10: the column 'lower' appears twice");
  EXPECT_EQ(error_of(header + "a,0,3\n"),
            "f.csv:2:5: 4 fields are needed as in the header, the line has 3");
  EXPECT_EQ(error_of(header + "a,0,3,4\nb,0,x3,4\n"),
            "f.csv:3:5: a whole number of 64 bits is needed, this is 'x3'");
  EXPECT_EQ(error_of(header + "a,0,3,99999999999999999999\n").substr(0, 12), "f.csv:2:7: a");
  EXPECT_EQ(error_of(header + "a,0,3,-4\n"), "f.csv:2:7: a size must not be below 0");
  EXPECT_EQ(error_of(header + "a,4,3,4\n"), "f.csv:2:5: a buffer must not end before it begins");
  EXPECT_EQ(error_of("id,lower,upper,size,gaps\na,0,9,4,2-3 5\n"),
            "f.csv:2:13: a gap reads 'from-to', this is '5'");
  EXPECT_EQ(error_of("id,lower,upper,size,gaps\na,0,9,4,2-3@0:1\n"),
            "f.csv:2:9: windows in gaps are not supported: '2-3@0:1'");
  EXPECT_EQ(error_of("id,lower,upper,size,gaps\na,0,9,4,2-30\n"),
            "f.csv: buffer 0 (a): its gaps must ascend inside [0, 9), but one is [2, 30)");
  EXPECT_EQ(error_of("id,lower,end,size\na,0,9223372036854775807,4\n"),
            "f.csv:2:5: the number is too large");
  EXPECT_THROW(read_plan_csv_file("/no/such/file.csv"), DataError);
}

TEST(PlanCsv, SurvivesDamage) {
  const std::string good = write_plan_csv(testing::random_problem(
      5, 12, 20, 99, {.alignments = true, .gaps = true, .fixed = true, .hints = true}));
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (char c : {',', '-', '\n', '9', '\0', 'x'}) {
      std::string bad = good;
      bad[i] = c;
      refused += error_of(bad) != "none";
      refused += error_of(bad.substr(0, i)) != "none";
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(PlanDraw, ShowsWhereThingsStand) {
  const Problem problem{{{0, 2, 8}, {0, 5, 4}, {2, 5, 8}}};
  EXPECT_EQ(draw_plan_text(problem, {{4, 0, 4}, 12}, 5, 3),
            "12 bytes, lower bound 12\n"
            "|aaccc|\n"
            "|aaccc|\n"
            "|bbbbb|\n"
            "time 0 to 5\n");
  EXPECT_EQ(draw_plan_text({}, {}, 3, 1), "0 bytes, lower bound 0\n|...|\ntime 0 to 1\n");
}

TEST(PlanDraw, SvgHasABoxForEachLivePartAndEscapesNames) {
  Problem problem{{{0, 9, 8, 1, -1, {{3, 4}}, -1, "<a & b>"}, {0, 5, 4}, {3, 3, 8}}};
  const std::string svg = draw_plan_svg(problem, {{0, 8, 0}, 12});
  size_t boxes = 0;
  for (size_t at = svg.find("<title>"); at != svg.npos; at = svg.find("<title>", at + 1)) ++boxes;
  EXPECT_EQ(boxes, 3u);
  EXPECT_NE(svg.find("&lt;a &amp; b&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("<a"), std::string::npos);
}

}  // namespace
}  // namespace tessera
