// Kernels that break the rules of memory, on purpose.
#include "tessera/graph/plan_guard.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

enum class Manner {
  good,
  overruns,
  forgets,
  leaves_some,
  remembers,
  stains,
  eats,
  sneaks,
  reverses,
  reads_scratch,
  counts
};

struct RudeParams {
  Manner manner;
  bool operator==(const RudeParams&) const = default;
};

float* g_remembered = nullptr;  // the lower of two blocks that an op had
float* g_parameter = nullptr;   // bytes of a parameter
int g_count = 0;

// y = x + 1, in one of several manners.
class Rude final : public OpBase<Rude> {
 public:
  explicit Rude(Manner manner) : params{manner} {}
  std::string_view name() const override { return "rude"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  std::vector<Algorithm> algorithms(SpecView, const Target&) const override {
    return {{"default", params.manner == Manner::reads_scratch ? sizeof(float) : 0}};
  }
  uint32_t may_reuse(int) const override { return params.manner == Manner::reverses ? 0b1 : 0; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer scratch) const override {
    const int64_t n = in[0].elements(), last = params.manner == Manner::reverses ? n - 1 : 0;
    const auto* x = in[0].as<float>();
    auto* y = out[0].as<float>();
    if (params.manner == Manner::forgets) return;
    for (int64_t i = 0; i < n; ++i)
      if (params.manner != Manner::leaves_some || i != 3) y[i] = x[last > 0 ? last - i : i] + 1;
    if (params.manner == Manner::counts) y[2] = static_cast<float>(++g_count);
    if (params.manner == Manner::reads_scratch) {  // the maximum, from an uninitialized start
      auto* largest = scratch.as<float>();
      for (int64_t i = 0; i < n; ++i) *largest = std::fmax(*largest, x[i]);
      y[0] = *largest / 2;
    }
    if (params.manner == Manner::overruns) y[n] = 7;
    if (params.manner == Manner::remembers) g_remembered = std::min(in[0].as<float>(), y);
    if (params.manner == Manner::stains) g_remembered[200] = 7;
    if (params.manner == Manner::eats) in[0].as<float>()[0] = 7;
    if (params.manner == Manner::sneaks) g_parameter[3] = 7;
  }
  const RudeParams params;
};

Tensor rude(const Tensor& x, Manner manner) { return apply1(std::make_shared<Rude>(manner), {x}); }

// Returns the error of a run with two long values, their sum and, after these are freed, two more.
std::string message_of_run(Manner second, Manner third) {
  auto step = compile(
      [&](const Tensor& x) {
        const Tensor few = rude(sum(rude(rude(x, Manner::good), second)), third);
        return sum(rude(x * few, Manner::good));
      },
      {.verify_plan = true});
  try {
    EXPECT_EQ(step(ones({256})).item<float>(), (256 * 3 + 1 + 1) * 256.0f);
  } catch (const OpError& error) {
    return error.what();
  }
  return "";
}

// Returns the error of a guarded step of `fn`.
template <class F>
std::string message_of(const F& fn, const Tensor& x) {
  auto step = compile(fn, {.verify_plan = true});
  try {
    step(x);
  } catch (const OpError& error) {
    return error.what();
  }
  return "";
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), text.npos) << "'" << part << "' is missing in: " << text;
}

TEST(PlanGuard, SaysNothingOfKernelsThatKeepToTheirBytes) {
  EXPECT_EQ(message_of_run(Manner::good, Manner::good), "");
}

TEST(PlanGuard, NamesTheStepThatWritesBeyondItsOutput) {
  const std::string text = message_of_run(Manner::good, Manner::overruns);
  expect_parts(text, {"(rude) wrote beyond the end of %",
                      " float32[], its output; this is a bug in the op", "not in the plan"});
}

// A result is in the slots, which are not planned.
TEST(PlanGuard, NamesTheStepThatWritesBeyondAResult) {
  const std::string text = message_of(
      [](const Tensor& x) {
        const ModulePathScope block("block"), mine("mine");
        return rude(x, Manner::overruns);
      },
      ones({250}));
  expect_parts(text, {"node 0 (rude at block.mine) wrote beyond the end of %",
                      " float32[250], its output; this is a bug in the op, not in the plan"});
}

TEST(PlanGuard, NamesTheOpThatWritesToItsInput) {
  const auto middle = [](const Tensor& x) {
    const Tensor y = rude(x, Manner::good);
    return sum(rude(y, Manner::eats) * y);
  };
  expect_parts(message_of(middle, ones({256})),
               {"(rude) wrote to its input 0, %",
                " float32[256], which it declares neither with "
                "may_reuse() nor with updates(); this is a bug in the op, not in the plan"});
  const auto argument = [](const Tensor& x) { return sum(rude(x, Manner::eats)); };
  expect_parts(message_of(argument, ones({256})), {"wrote to its input 0, %0:arg0"});
}

TEST(PlanGuard, NamesTheOpsThatMayHaveWrittenElsewhere) {
  Store store;
  const Tensor w = store.parameter("w", {256}, Initializer::ones());
  store.materialize();
  g_parameter = reinterpret_cast<float*>(w.impl()->data());
  const auto fn = [&](const Tensor& x) {
    const Tensor y = sum(rude(rude(x * w, Manner::good), Manner::sneaks));
    return y + sum(w);
  };
  expect_parts(message_of(fn, ones({256})),
               {":w float32[256] was overwritten by an op that did not get it as an input",
                "(rude), node", "bug in one of these ops, not in the plan"});
}

TEST(PlanGuard, NoticesWritesToBytesThatWereGivenUp) {
  const std::string text = message_of_run(Manner::remembers, Manner::stains);
  EXPECT_NE(text.find("(rude) or an earlier node wrote to memory"), std::string::npos) << text;
}

// A value that depends on its op's inputs alone, in a chain that lets an op run in place.
std::string message_of_middle(Manner manner) {
  return message_of(
      [&](const Tensor& x) {
        const ModulePathScope block("block");
        return sum(rude(rude(rude(x, Manner::good), manner), Manner::good));
      },
      arange(256));
}

TEST(PlanGuard, NamesTheOpThatLeavesElementsUnwritten) {
  expect_parts(message_of_middle(Manner::forgets),
               {"node 1 (rude at block) left 256 of the 256 elements of its output %",
                " float32[256] unwritten; this is a bug in the op, not in the plan: "
                "write each element"});
  expect_parts(message_of_middle(Manner::leaves_some),
               {"node 1 (rude at block) left 1 of the 256 elements of its output %"});
}

TEST(PlanGuard, NamesTheOpThatReadsAnInputAfterItHasWrittenInItsPlace) {
  expect_parts(message_of_middle(Manner::reverses),
               {"node 1 (rude at block) computes different bits of its output %",
                " float32[256] in place of its input 0, which may_reuse(0) allows; this is a bug "
                "in the op, not in the plan: read all inputs of an element before"});
}

TEST(PlanGuard, NamesTheOpThatReadsScratchBeforeItIsWritten) {
  expect_parts(message_of_middle(Manner::reads_scratch),
               {"node 1 (rude at block) computes different bits of its output %",
                "from the same inputs if its scratch and its outputs contained other bytes before; "
                "this is a bug in the op, not in the plan: write scratch before"});
}

TEST(PlanGuard, NamesTheOpThatKeepsSomethingFromRunToRun) {
  expect_parts(message_of_middle(Manner::counts),
               {"from the same inputs", "keep no data from one run()"});
}

// A persistent tensor is updated in place, and once.
TEST(PlanGuard, RunsUpdatesOnACopyFirst) {
  class Add final : public OpBase<Add> {
   public:
    std::string_view name() const override { return "add_in_place"; }
    Specs infer(SpecView in) const override { return {in[0]}; }
    int updates(int) const override { return 0; }
    void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
      EXPECT_EQ(in[0].data, out[0].data);
      for (int64_t i = 0; i < in[0].elements(); ++i) out[0].as<float>()[i] += in[1].as<float>()[i];
    }
    const struct Params { bool operator==(const Params&) const = default; } params{};
  };
  Store store;
  const Tensor w = store.parameter("w", {5}, Initializer::ones());
  auto step = compile(
      [&](const Tensor& x) {
        apply(std::make_shared<Add>(), {w, x});
        return sum(x);
      },
      {.verify_plan = true});
  for (int i = 0; i < 3; ++i) step(arange(5));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{1, 4, 7, 10, 13}));
}

TEST(PlanGuard, RedZonesArePartOfThePlan) {
  const auto arena_bytes = [](bool verify) {
    auto step = compile([](const Tensor& x) { return sum(rude(x, Manner::good)); },
                        {.verify_plan = verify});
    return step.prepare({{DType::f32, {256}, {}}}).compiled_graph()->arena_bytes();
  };
  EXPECT_GE(arena_bytes(true), arena_bytes(false) + PlanGuard::kRedZone);
}

}  // namespace
}  // namespace tessera
