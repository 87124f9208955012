#include "tessera/models/study/profile.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tessera/models/run/profile_costs.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

Config small_config() {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.batch = 4;
  config.threads = 2;
  return config;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string message_of(const std::string& a, const std::string& b) {
  try {
    diff_profiles(a, "a.json", b, "b.json", 0);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Profile, EveryOpOfEveryStepIsTimedWithinIt) {
  const Profile p = profile(small_config(), {.steps = 3, .warmup = 1});
  EXPECT_EQ(p.device, "cpu:0");
  EXPECT_EQ(p.threads, 2);
  EXPECT_EQ(p.batch, 4);
  ASSERT_EQ(p.plain_steps.size(), 3u);
  ASSERT_EQ(p.observed_steps.size(), 3u);
  ASSERT_EQ(p.op_times.size(), 3 * p.ops.size());
  for (size_t step = 0; step < 3; ++step) {
    double reached = p.observed_steps[step].begin;
    EXPECT_LE(p.plain_steps[step].end, reached);  // one after the other
    for (size_t i = 0; i < p.ops.size(); ++i) {
      const TimeSpan& span = p.op_times[step * p.ops.size() + i];
      EXPECT_LE(reached, span.begin);
      EXPECT_LE(span.begin, span.end);
      reached = span.end;
    }
    EXPECT_LE(reached, p.observed_steps[step].end);
  }
  for (size_t i = 0; i < p.ops.size(); ++i) {
    std::vector<double> times;
    for (size_t step = 0; step < 3; ++step) {
      const TimeSpan& span = p.op_times[step * p.ops.size() + i];
      times.push_back(span.end - span.begin);
    }
    std::sort(times.begin(), times.end());
    EXPECT_EQ(p.ops[i].us.min, times[0]);
    EXPECT_EQ(p.ops[i].us.median, times[1]);
    EXPECT_EQ(p.ops[i].us.max, times[2]);
  }
}

TEST(Profile, OpsAreToldWithTheirPlaceShapeAndCost) {
  const Profile p = profile(small_config(), {.steps = 1, .warmup = 0});
  std::set<std::string> titles;
  for (const ProfiledOp& op : p.ops) {
    titles.insert(op_title(op.op, op.module_path));
    EXPECT_NE(op.op, "view");
    EXPECT_TRUE(has(op.shape, " -> ")) << op.op;
    EXPECT_GT(op.cost.bytes_written, 0) << op.op;
    if (op.op == "conv2d" && op.module_path == "conv1") {
      EXPECT_EQ(op.phase, "forward");
      EXPECT_TRUE(op.shape.starts_with("[4x")) << op.shape;
      EXPECT_GT(op.cost.flops, 0);
    }
  }
  for (const char* title : {"conv2d conv1", "conv2d_weight_grad conv1", "matmul fc1",
                            "sgd_update conv1.weight", "cross_entropy"})
    EXPECT_TRUE(titles.contains(title)) << title;
}

TEST(Profile, InBfloat16DirectConvolutionsAndProductsMultiplyPairs) {
  Config config = small_config();
  config.precision = Precision::bf16;
  const Profile p = profile(config, {.steps = 1, .warmup = 0});
  for (const ProfiledOp& op : p.ops)
    if (op.op == "conv2d") {
      EXPECT_EQ(op.dtype, "bfloat16") << op.module_path;
      EXPECT_EQ(op.pairs, op.algorithm == "direct") << op.module_path;
    } else if (op.op == "matmul") {
      EXPECT_EQ(op.pairs, op.algorithm == "native") << op.module_path;
    }
}

TEST(Profile, TheMedianOfTwoLiesBetweenThem) {
  const Profile p = profile(small_config(), {.steps = 2, .warmup = 0});
  for (const ProfiledOp& op : p.ops) EXPECT_EQ(op.us.median, (op.us.min + op.us.max) / 2) << op.op;
}

TEST(Profile, EagerModeHasNoProgram) {
  Config config = small_config();
  config.mode = Mode::kEager;
  EXPECT_THROW(profile(config, {}), ConfigError);
}

// Returns an invented profile: 1 ms of a convolution, 3 ms of a copy.
Profile invented() {
  Profile p{
      .device = "cpu:0", .kernels = "native", .isa = "avx2", .threads = 2, .batch = 8, .steps = 1};
  p.peaks = {.gflops_of_thread = 10, .gflops = 20, .bf16_gflops = 40, .copy_gbytes = 8};
  p.step_ms = {4.5, 5, 6};
  p.ops.push_back(
      {.node = 3,
       .op = "conv2d",
       .module_path = "layer1",
       .phase = "forward",
       .algorithm = "direct",
       .shape = "[1] -> [2]",
       .dtype = "float32",
       .cost = {.flops = 10'000'000, .bytes_read = 1'000'000, .bytes_written = 1'000'000},
       .us = {900, 1000, 1200}});
  p.ops.push_back({.node = 4,
                   .op = "slice",
                   .module_path = "",
                   .phase = "forward",
                   .algorithm = "default",
                   .shape = "[2] -> [1]",
                   .dtype = "float32",
                   .cost = {.flops = 0, .bytes_read = 6'000'000, .bytes_written = 6'000'000},
                   .us = {3000, 3000, 3000}});
  p.plain_steps = {{0, 5000}};
  p.observed_steps = {{5000, 10000}};
  p.op_times = {{6000, 7000}, {7000, 10000}};
  return p;
}

TEST(Profile, TheTableHasRatesAndWhatTheyAreOfThePeaks) {
  const std::string text = invented().report(0).text();
  EXPECT_TRUE(
      has(text,
          "   3  forward  direct     float32  1000.0   900.0  1200.0  25.0 %    10.00  50 % "
          " 2.00  25 %  conv2d layer1; [1] -> [2]"))
      << text;
  EXPECT_TRUE(has(text, " 75.0 %                 4.00  50 %")) << text;
  EXPECT_LT(text.rfind("slice"), text.rfind("conv2d"));  // longest first
  const std::string short_text = invented().report(1).text();
  EXPECT_TRUE(has(short_text, "and 1 ops more")) << short_text;
  EXPECT_FALSE(has(short_text, "[1] -> [2]"));
}

TEST(Profile, ProductsOfPairsAreComparedWithTheirOwnPeak) {
  Profile p = invented();
  p.ops[0].pairs = true;
  p.ops[0].dtype = "bfloat16";
  const std::string text = p.report().text();
  EXPECT_TRUE(has(text, "20.0 GFLOP/s (10.0 of one thread; 40.0 in bfloat16), copy 8.0 GB/s"))
      << text;
  EXPECT_TRUE(has(text, "conv2d    1  1.000  25.0 %    10.00  25 %")) << text;
  EXPECT_TRUE(has(text, "bfloat16  1000.0   900.0  1200.0  25.0 %    10.00  25 %")) << text;
}

TEST(Profile, TheFileHasTheSame) {
  const Json json = invented().report().json();
  EXPECT_EQ(json["format"].string(), kProfileFormat);
  EXPECT_EQ(json["step_ms"]["median"].number(), 5);
  EXPECT_EQ(json["ops_us"].number(), 4000);
  const Json conv = json["ops"].items().at(0);
  EXPECT_EQ(conv["module_path"].string(), "layer1");
  EXPECT_EQ(conv["us"]["min"].number(), 900);
  EXPECT_EQ(conv["flops"].integer(), 10'000'000);
  EXPECT_EQ(conv["gflops"].number(), 10);
  EXPECT_EQ(conv["share"].number(), 0.25);
  EXPECT_EQ(conv["dtype"].string(), "float32");
  EXPECT_EQ(json["peak_bf16_gflops"].number(), 40);
  EXPECT_EQ(json["kinds"].items().at(0)["op"].string(), "slice");
}

TEST(Profile, TheTraceHasEveryOpAtItsTime) {
  const Json json = Json::parse(invented().trace());
  std::vector<std::string> seen;
  for (const Json& event : json["traceEvents"].items()) {
    if (event["ph"].string() != "X") continue;
    seen.push_back(event["name"].string());
    if (event["name"].string() == "conv2d layer1") {
      EXPECT_EQ(event["ts"].number(), 6000);
      EXPECT_EQ(event["dur"].number(), 1000);
      EXPECT_EQ(event["args"]["flops"].integer(), 10'000'000);
    }
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"step", "step, op by op", "conv2d layer1", "slice"}));
}

TEST(ProfileDiff, PairsOpsByNameAndPlaceTheLargestDifferenceFirst) {
  Profile b = invented();
  b.threads = 1;
  b.ops[0].us.median = 3000;
  b.ops[0].algorithm = "eigen";
  b.ops[1].op = "slice_grad";
  const std::string text = diff_profiles(invented().report().json().text(), "a.json",
                                         b.report().json().text(), "b.json", 0);
  EXPECT_TRUE(has(text, "threads: 2 => 1\n")) << text;
  EXPECT_FALSE(has(text, "batch:")) << text;
  EXPECT_TRUE(has(text, "step 5.000 => 5.000 ms, ratio 1.000\n")) << text;
  EXPECT_TRUE(has(text, "1000.0  3000.0  3.000     +2000.0  conv2d layer1  direct => eigen\n"))
      << text;
  EXPECT_TRUE(has(text, "3000.0                    -3000.0  slice  only in the first:")) << text;
  EXPECT_TRUE(has(text, "        3000.0            +3000.0  slice_grad  only in the second"))
      << text;
  EXPECT_LT(text.rfind("slice_grad"), text.rfind("conv2d layer1"));
  EXPECT_TRUE(
      has(diff_profiles(invented().report().json().text(), "a", b.report().json().text(), "b", 1),
          "and 2 more"));
}

TEST(ProfileDiff, SaysWhatIsNoProfile) {
  const std::string good = invented().report().json().text();
  EXPECT_EQ(message_of(good, good), "");
  EXPECT_TRUE(has(message_of("no JSON", good), "a.json: is not a profile"));
  EXPECT_TRUE(has(message_of(good, "{}"), "b.json: is not a profile"));
  EXPECT_TRUE(has(message_of(good, "[]"), "b.json: is not a profile"));
  std::string other = good;
  other.replace(other.find("profile 2"), 9, "profile 9");
  const std::string message = message_of(good, other);
  EXPECT_TRUE(has(message, "b.json")) << message;
  EXPECT_TRUE(has(message, "'tessera profile 9', but must be 'tessera profile 2'")) << message;
}

}  // namespace
}  // namespace tessera
