// Kernels that do not keep to their bytes, on purpose.
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
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

enum class Manner { good, overruns, forgets, remembers, stains, eats, sneaks };

struct RudeParams {
  Manner manner;
  bool operator==(const RudeParams&) const = default;
};

float* g_remembered = nullptr;  // the lower of two blocks that an op had once
float* g_parameter = nullptr;   // bytes of a parameter

// y = x + 1, one way or another.
class Rude final : public OpBase<Rude> {
 public:
  explicit Rude(Manner manner) : params{manner} {}
  std::string_view name() const override { return "rude"; }
  Specs infer(std::span<const TensorSpec> in) const override { return {in[0]}; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    const int64_t n = in[0].elements();
    const auto* x = in[0].as<float>();
    auto* y = out[0].as<float>();
    if (params.manner == Manner::forgets) return;
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1;
    if (params.manner == Manner::overruns) y[n] = 7;
    if (params.manner == Manner::remembers) g_remembered = std::min(in[0].as<float>(), y);
    if (params.manner == Manner::stains) g_remembered[200] = 7;
    if (params.manner == Manner::eats) in[0].as<float>()[0] = 7;
    if (params.manner == Manner::sneaks) g_parameter[3] = 7;
  }
  const RudeParams params;
};

Tensor rude(const Tensor& x, Manner manner) { return apply1(std::make_shared<Rude>(manner), {x}); }

// Two long values, their sum, and, when those are gone, two long ones again.
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

// What is said where a step of `fn` is watched.
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
                      " float32[], its output; the op is to blame", "not the plan"});
}

// A result stands in the slots, which no plan lays out.
TEST(PlanGuard, NamesTheStepThatWritesBeyondAResult) {
  const std::string text = message_of(
      [](const Tensor& x) {
        const ModulePathScope block("block"), mine("mine");
        return rude(x, Manner::overruns);
      },
      ones({250}));
  expect_parts(text, {"step 0 (rude at block.mine) wrote beyond the end of %",
                      " float32[250], its output; the op is to blame, not the plan"});
}

TEST(PlanGuard, NamesTheOpThatWritesToItsInput) {
  const auto middle = [](const Tensor& x) {
    const Tensor y = rude(x, Manner::good);
    return sum(rude(y, Manner::eats) * y);
  };
  expect_parts(message_of(middle, ones({256})),
               {"(rude) wrote to its input 0, %",
                " float32[256], which it declares neither with "
                "may_reuse() nor with updates(); the op is to blame, not the plan"});
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
               {":w float32[256] has been overwritten by an op that was not given it",
                "(rude), step", "is to blame, not the plan"});
}

TEST(PlanGuard, NoticesWritesToBytesThatWereGivenUp) {
  const std::string text = message_of_run(Manner::remembers, Manner::stains);
  EXPECT_NE(text.find("(rude) or one before it wrote to bytes"), std::string::npos) << text;
}

TEST(PlanGuard, ValuesThatNobodyWroteAreNaN) {
  auto step =
      compile([](const Tensor& x) { return sum(rude(rude(x, Manner::good), Manner::forgets)); },
              {.verify_plan = true});
  EXPECT_TRUE(std::isnan(step(ones({256})).item<float>()));
}

TEST(PlanGuard, RedZonesArePartOfThePlan) {
  const auto arena_bytes = [](bool verify) {
    auto step = compile([](const Tensor& x) { return sum(rude(x, Manner::good)); },
                        {.verify_plan = verify});
    return step.prepare({{DType::f32, {256}, {}}}).program()->arena_bytes();
  };
  EXPECT_GE(arena_bytes(true), arena_bytes(false) + PlanGuard::kRedZone);
}

}  // namespace
}  // namespace tessera
