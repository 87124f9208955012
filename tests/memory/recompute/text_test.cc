#include <gtest/gtest.h>

#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/memory/recompute/random_recompute.h"

namespace tessera {
namespace {

std::string error_of(std::string_view text) {
  try {
    read_recompute(text, "f");
  } catch (const DataError& error) {
    return error.what();
  }
  return "none";
}

constexpr const char* kExample =
    "# a layer\n"
    "budget 4096\n"
    "value x 0\n"
    "value y 1024\n"
    "value z 1024 may_reuse=y\n"
    "value w 0\n"
    "value g 64 result\n"
    "\n"
    "step conv 1200 reads=x,w makes=y scratch=4096\r\n"
    "step relu 20\treads=y makes=z cheap\n"
    "step grad 20 reads=z makes=g\n"
    "step update 5 reads=g,w overwrites=w once\n";

TEST(RecomputeText, ReadsTheExample) {
  const RecomputeProblem problem = read_recompute(kExample);
  EXPECT_EQ(problem.budget, 4096);
  ASSERT_EQ(problem.values.size(), 5u);
  EXPECT_EQ(problem.values[2], (RecomputeValue{1024, false, {1}, "z"}));
  EXPECT_EQ(problem.values[4], (RecomputeValue{64, true, {}, "g"}));
  ASSERT_EQ(problem.steps.size(), 4u);
  EXPECT_EQ(problem.steps[0], (RecomputeStep{1200, 4096, {0, 3}, {1}, {}, true, false, "conv"}));
  EXPECT_EQ(problem.steps[1], (RecomputeStep{20, 0, {1}, {2}, {}, true, true, "relu"}));
  EXPECT_EQ(problem.steps[3], (RecomputeStep{5, 0, {4, 3}, {}, {3}, false, false, "update"}));
}

TEST(RecomputeText, RoundTrips) {
  for (uint32_t seed = 0; seed < 64; ++seed) {
    RecomputeProblem problem = random_recompute(seed, 12);
    problem.budget = seed % 2 == 0 ? -1 : seed;
    EXPECT_EQ(read_recompute(write_recompute(problem)), problem) << seed;
  }
}

TEST(RecomputeText, ReplacesNamesThatCannotStandInAFile) {
  const RecomputeProblem problem{{{1, false, {}, "a b"}, {2, false, {}, "a_b"}, {3}},
                                 {{1, 0, {}, {0, 1, 2}, {}, true, false, "do,it=now"}, {}}};
  const std::string text = write_recompute(problem);
  EXPECT_EQ(text,
            "value a_b 1\nvalue a_b~1 2\nvalue v2 3\n"
            "step do_it_now 1 makes=a_b,a_b~1,v2\nstep s1 0\n");
  EXPECT_EQ(write_recompute(read_recompute(text)), text);
}

TEST(RecomputeText, SaysWhereItIsWrong) {
  const std::string values = "value a 1\nvalue b 2\n";
  EXPECT_EQ(error_of(""), "f:1:1: the file has no step");
  EXPECT_EQ(
      error_of("buffer a 1\n"),
      "f:1:1: a line must begin with value, step or budget, but this one begins with 'buffer'");
  EXPECT_EQ(error_of("value\n"), "f:1:6: a name is missing");
  EXPECT_EQ(error_of("value a\n"), "f:1:8: the size in bytes is missing");
  EXPECT_EQ(error_of("value a=b 1\n"), "f:1:7: a name must not have ',' or '=', but is 'a=b'");
  EXPECT_EQ(error_of("value a -1\n"), "f:1:9: a number must not be below 0, but is '-1'");
  EXPECT_EQ(error_of("value a 1KiB\n"), "f:1:9: must be an integer, but is '1KiB'");
  EXPECT_EQ(error_of("value a 4611686018427387904\n"),
            "f:1:9: a number must fit 62 bits, but this is '4611686018427387904'");
  EXPECT_EQ(error_of("value a 1\nvalue a 2\n"), "f:2:7: value 'a' already exists");
  EXPECT_EQ(error_of("value a 1 cheap\n"),
            "f:1:11: 'cheap' is not one of may_reuse=A,B and result");
  EXPECT_EQ(error_of("value a 1 result result\n"), "f:1:18: 'result' appears twice");
  EXPECT_EQ(error_of(values + "step s 1 reads=a,,b\n"), "f:3:18: value '' does not exist");
  EXPECT_EQ(error_of(values + "step s 1 reads=a,c\n"), "f:3:18: value 'c' does not exist");
  EXPECT_EQ(error_of(values + "step s 1 twice\n"),
            "f:3:10: 'twice' is not one of reads=, makes=, overwrites=, scratch=, "
            "once and cheap");
  EXPECT_EQ(error_of("value a 1 may_reuse=q\nstep s 1 makes=a\n"),
            "f:1:21: value 'q' does not exist");
  EXPECT_EQ(error_of("budget 1\nbudget 2\n"), "f:2:1: the budget appears twice");
  EXPECT_EQ(error_of("budget 1 2\n"), "f:1:10: nothing may follow a budget");
  EXPECT_EQ(error_of(std::string("value a\0 1\n", 11)),
            "f:1:8: the file must be text, but has the byte 0x00 here");
}

TEST(RecomputeText, NamesTheLineOfWhatDoesNotFit) {
  const std::string values = "value a 1\nvalue b 2\n";
  EXPECT_EQ(error_of(values + "step s 1 reads=b makes=a\nstep t 1 reads=a makes=b\n"),
            "f:3:1: step 's': it reads value 'b' before step 't' makes it");
  EXPECT_EQ(error_of(values + "step s 1 makes=a\nstep t 1 makes=a\n"),
            "f:4:1: step 't': it makes value 'a', which step 's' also makes");
  EXPECT_EQ(error_of("value a 4611686018427387000\nvalue b 4611686018427387000\nstep s 1\n"),
            "f:2:1: value 'b': the sum of the sizes up to this value must fit 62 bits");
  EXPECT_EQ(
      error_of("value a 1\nvalue b 2 may_reuse=a\nstep s 1 makes=a\nstep t 1 reads=a makes=b\n"),
      "f:2:1: value 'b': it may reuse value 'a', but their sizes differ: 2 and 1 bytes");
}

}  // namespace
}  // namespace tessera
