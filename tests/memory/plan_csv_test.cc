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
  EXPECT_EQ(
      error_of(""),
      "f.csv:1:1: the file must begin with a header line (id,lower,upper,size), but is empty");
  EXPECT_EQ(error_of("id,lower,upper\n"), "f.csv:1:1: the column 'size' is missing");
  EXPECT_EQ(error_of("id,lower,upper,size,colour\n").substr(0, 37),
            "f.csv:1:21: unknown column 'colour'; ");
  EXPECT_EQ(error_of("id,lower,start,upper,size\n"),
            "f.csv:1:10: the column 'lower' appears twice");
  EXPECT_EQ(error_of(header + "a,0,3\n"),
            "f.csv:2:5: the line must have 4 fields like the header, but has 3");
  EXPECT_EQ(error_of(header + "a,0,3,4\nb,0,x3,4\n"), "f.csv:3:5: must be an integer, but is 'x3'");
  EXPECT_EQ(error_of(header + "a,0,3,99999999999999999999\n"),
            "f.csv:2:7: a number must fit 62 bits, but this is '99999999999999999999'");
  EXPECT_EQ(error_of(header + "a,0,3,-4\n"), "f.csv:2:7: a size must not be below 0");
  EXPECT_EQ(error_of(header + "a,4,3,4\n"), "f.csv:2:5: a buffer must not end before it begins");
  EXPECT_EQ(error_of("id,lower,upper,size,gaps\na,0,9,4,2-3 5\n"),
            "f.csv:2:13: a gap must be 'from-to', but is '5'");
  EXPECT_EQ(error_of("id,lower,upper,size,gaps\na,0,9,4,2-3@0:1\n"),
            "f.csv:2:9: windows in gaps are not supported: '2-3@0:1'");
  EXPECT_EQ(error_of("id,lower,upper,size,gaps\na,0,9,4,2-30\n"),
            "f.csv:2:9: gaps must ascend inside [0, 9), but one is [2, 30)");
  EXPECT_EQ(error_of("id,lower,upper,size,gaps\na,0,9,4,2-4 3-5\n"),
            "f.csv:2:13: gaps must ascend inside [0, 9), but one is [3, 5)");
  EXPECT_EQ(error_of("id,lower,end,size\na,0,9223372036854775807,4\n"),
            "f.csv:2:5: a number must fit 62 bits, but this is '9223372036854775807'");
  EXPECT_EQ(error_of("id,lower,upper,size,alignment,offset\na,0,9,4,4,6\n"),
            "f.csv:2:11: an offset must be a multiple of its alignment, 4");
  EXPECT_EQ(error_of("id,lower,upper,size,offset\na,0,9,4,-2\n"),
            "f.csv:2:9: an offset must not be below 0; write -1 or nothing for no offset");
  EXPECT_THROW(read_plan_csv_file("/no/such/file.csv"), DataError);
}

TEST(PlanCsv, RefusesWhatIsNoText) {
  const std::string header = "id,lower,upper,size\n";
  EXPECT_EQ(error_of(header + std::string("a\0b,0,1,2\n", 11)),
            "f.csv:2:2: the file must be text, but has the byte 0x00 here");
  EXPECT_EQ(error_of(header + "a,0,1,2\rb,0,1,2\n"),
            "f.csv:2:8: the file must be text, but has the byte 0x0d here");
  const std::string long_word(100'000, 'x');
  EXPECT_EQ(error_of(header + "a,0,1," + long_word + "\n"),
            "f.csv:2:7: must be an integer, but is '" + long_word.substr(0, 40) + "'...");
}

TEST(PlanCsv, TakesTheLargestNumbers) {
  const std::string large = std::to_string((int64_t{1} << 62) - 2);
  const Problem problem = read_plan_csv("id,lower,upper,size\na,-" + large + "," + large + ",9\n");
  EXPECT_EQ(problem.buffers[0].upper, (int64_t{1} << 62) - 2);
  EXPECT_EQ(lower_bound(problem), 9);
  const std::string error =
      error_of("id,lower,upper,size\na,0,1,5\n\nb,0,1," + large + "\nc,0,1,2\n");
  EXPECT_TRUE(error.starts_with("f.csv:4:1: buffer 1 (b)")) << error;
  EXPECT_NE(error.find("up to this buffer must fit 62 bits"), std::string::npos) << error;
}

TEST(PlanCsv, NumbersWhatHasNoName) {
  const Problem problem = read_plan_csv("id,lower,upper,size\n,0,1,2\n,0,1,3");
  EXPECT_EQ(problem.buffers[1].id, "1");
  EXPECT_EQ(read_plan_csv(write_plan_csv(problem)), problem);
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

TEST(PlanDraw, ALegendNamesTheLetters) {
  const Problem problem{{{.lower = 0, .upper = 2, .size = 8, .id = "small"},
                         {.lower = 0, .upper = 5, .size = 4096, .id = "large"}}};
  const std::string text = draw_plan_text(problem, {{4096, 0}, 4104}, 5, 3, 16);
  EXPECT_NE(text.find("|bbbbb|\n"), text.npos) << text;
  EXPECT_NE(text.find("the largest buffers:\n  b      4.00 KiB  time    0 to 5     large\n"
                      "  a           8 B  time    0 to 2     small\n"),
            text.npos)
      << text;
  // More buffers than letters: the largest have one each.
  Problem many;
  Plan plan;
  for (int i = 0; i < 70; ++i) {
    many.buffers.push_back({.lower = 0, .upper = 1, .size = 64 + i});
    plan.offsets.push_back(plan.bytes);
    plan.bytes += 64 + i;
  }
  const std::string crowded = draw_plan_text(many, plan, 1, 70, 2);
  EXPECT_NE(crowded.find("  a         133 B  time    0 to 1     69\n"), crowded.npos) << crowded;
  EXPECT_NE(crowded.find("  +  one of the 8 smaller buffers\n"), crowded.npos) << crowded;
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

TEST(PlanDraw, SvgSaysHowManyBytesAndWhichSteps) {
  const Problem problem{{{3, 250, 3 << 20}, {0, 40, 3 << 19}}};
  const std::string svg = draw_plan_svg(problem, {{0, 3 << 20}, 9 << 19});
  for (const char* tick :
       {">0 B<", ">1 MiB<", ">2 MiB<", ">4 MiB<", ">0<", ">20<", ">240<", ">node<"})
    EXPECT_NE(svg.find(tick), svg.npos) << tick;
  EXPECT_EQ(svg.find(">5 MiB<"), svg.npos);
  const std::string small = draw_plan_svg({{{0, 2, 1536}}}, {{0}, 1536});
  for (const char* tick : {">256 B<", ">1 KiB<", ">1.25 KiB<", ">1.5 KiB<", ">1<", ">2<"})
    EXPECT_NE(small.find(tick), small.npos) << tick;
  EXPECT_NE(draw_plan_svg({}, {}).find(">0 B<"), std::string::npos);
}

}  // namespace
}  // namespace tessera
