#include "tessera/graph/compile.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/lifetimes.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/graph/program.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/memory/plan_check.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {
namespace {

// w <- w - rate * g, in place: the smallest op that updates.
struct DescendParams {
  double rate;
  bool operator==(const DescendParams&) const = default;
};
class Descend final : public OpBase<Descend> {
 public:
  explicit Descend(double rate) : params{rate} {}
  std::string_view name() const override { return "descend"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  int updates(int) const override { return 0; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if (!may_update(ctx, {in[1]})) return;
    for (int64_t i = 0; i < in[0].elements(); ++i)
      out[0].as<float>()[i] =
          in[0].as<float>()[i] - static_cast<float>(params.rate) * in[1].as<float>()[i];
  }
  const DescendParams params;
};

// Two parameters, a short chain of pointwise ops, two updates.
struct Fixture {
  Store store{7};
  Tensor a = store.parameter("a", {64}, Initializer::normal(1));
  Tensor b = store.parameter("b", {64}, Initializer::normal(1));

  Tensor step(const Tensor& x) {
    Tensor h = exp(x * a * 0.1) + b;
    Tensor y = h * h - x;
    Tensor loss = mean(y * y);
    Tensors grads = gradients(loss, Tensors{a, b});
    apply(std::make_shared<Descend>(0.01), {a, grads[0]});
    apply(std::make_shared<Descend>(0.01), {b, grads[1]});
    return loss;
  }
  StepFunction function() {
    return [this](const Tensors& x) { return Tensors{step(x[0])}; };
  }
};

Tensor batch(int64_t rows, uint64_t key) { return random_normal({rows, 64}, key); }

std::vector<float> train(const CompileOptions& options) {
  Fixture f;
  auto step = compile([&](const Tensor& x) { return f.step(x); }, options);
  std::vector<float> seen;
  for (uint64_t i = 0; i < 20; ++i)
    seen.push_back(step(batch(i % 3 == 2 ? 5 : 8, i)).item<float>());
  for (const Tensor& w : {f.a, f.b})
    for (float v : w.to_vector<float>()) seen.push_back(v);
  return seen;
}

TEST(Compile, GraphAndEagerGiveTheSameBits) {
  CompileOptions eager;
  eager.eager = true;
  std::vector<float> expected = train(eager);
  EXPECT_LT(expected[18], expected[0]);  // it learns
  for (const Planner* planner : planners()) {
    CompileOptions graph;
    graph.planner = planner;
    graph.verify_plan = true;
    EXPECT_EQ(train(graph), expected) << planner->name();
  }
  for (const char* pass :
       {"simplify", "dead_code", "common_subexpressions", "fuse_pointwise", "fuse_epilogues",
        "fuse_prologues", "fuse_consumers", "fuse_late_prologues", "order_updates", "in_place"}) {
    CompileOptions graph;
    graph.disabled_passes = {pass};
    EXPECT_EQ(train(graph), expected) << "without " << pass;
  }
}

TEST(Compile, OneProgramForEachSignatureAndOneArenaForAll) {
  Fixture f;
  auto step = compile([&](const Tensor& x) { return f.step(x); });
  step(batch(8, 1));
  step(batch(8, 2));
  EXPECT_EQ(step.trace_count(), 1);
  step(batch(5, 3));
  EXPECT_EQ(step.trace_count(), 2);
  EXPECT_EQ(step.trace_reasons()[0], "first call");
  EXPECT_EQ(step.trace_reasons()[1], "argument 0: float32[5x64] instead of float32[8x64]");
  EXPECT_EQ(step.arenas()->bytes({}), std::max(step.step(0).compiled_graph()->arena_bytes(),
                                               step.step(1).compiled_graph()->arena_bytes()));
}

TEST(Compile, SignaturesBeyondTheLimitAreRefusedDroppedOrSaid) {
  const auto function = [](const Tensor& x) { return x * 2.0; };
  auto refuses = compile(function, {.max_signatures = 2, .when_full = WhenFull::refuse});
  refuses(batch(1, 1)), refuses(batch(2, 1)), refuses(batch(1, 2));
  try {
    refuses(batch(3, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "compile: 2 signatures are already compiled, which is max_signatures; the next "
                 "one differs by: argument 0: float32[3x64] instead of float32[2x64]; pass "
                 "arguments of equal shapes, or raise max_signatures");
  }
  auto drops = compile(function, {.max_signatures = 2, .when_full = WhenFull::drop_oldest});
  drops(batch(1, 1)), drops(batch(2, 1)), drops(batch(1, 2)), drops(batch(3, 1));
  EXPECT_EQ(drops.steps(), 2u);
  EXPECT_EQ(drops.step(0).signature().arguments[0].shape[0], 1);  // the last one used
  EXPECT_EQ(drops.trace_count(), 3);

  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  auto grows = compile(function);
  for (int64_t rows = 1; rows <= 20; ++rows) grows(batch(rows, 1));
  set_log_sink({});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].find("signature 16 of one function (argument 0: float32[16x64] instead of "
                           "float32[15x64])") != std::string::npos)
      << said[0];
}

TEST(Compile, TheGraphAndThePlanCanBeRead) {
  Fixture f;
  auto step = compile([&](const Tensor& x) { return f.step(x); });
  try {
    step.step(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "compile: nothing is compiled yet; call the function, or prepare()");
  }
  step(batch(8, 1));
  EXPECT_THROW(step.step(1), Error);
  EXPECT_NE(step.graph().find("descend("), std::string::npos) << step.graph();
  EXPECT_NE(step.plan().find("arena"), std::string::npos) << step.plan();
}

TEST(Compile, TheScopesAroundTheCallArePartOfTheSignature) {
  for (const bool eager : {false, true}) {
    CompileOptions options;
    options.eager = eager;
    auto step = compile([](const Tensor& x) { return is_training() ? x + 1 : x - 1; }, options);
    const Specs specs = {{DType::f32, {1}, {}}};
    const auto result = [&] {
      CompiledStep& ready = step.prepare(specs);
      Tensor(ready.input(0)).assign_scalar(5);
      ready.run();
      return ready.output(0).item<float>();
    };
    EXPECT_EQ(result(), 4);
    const TrainingScope training;
    EXPECT_EQ(result(), 6);
    EXPECT_EQ(step.trace_reasons().back(), "training true");
    EXPECT_EQ(
        step.step(1).signature(),
        (Signature{.arguments = specs, .device = {}, .training = true, .settings = settings()}));
    EXPECT_EQ(step.step(1).program() == nullptr, eager);
  }
}

TEST(Compile, OneGraphIsPrintedWhateverTheNumberOfSignatures) {
  CompileOptions options;
  options.dump_after = "capture";
  auto step = compile([](const Tensor& x) { return exp(x); }, options);
  testing::internal::CaptureStdout();
  for (const int64_t rows : {8, 5}) step.prepare({batch(rows, 1).spec()});
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("float32[8x64]"), out.npos) << out;
  EXPECT_EQ(out.find("float32[5x64]"), out.npos) << out;
}

TEST(Compile, OtherKernelsAreAnotherSignature) {
  Fixture f;
  auto step = compile([&](const Tensor& x) { return f.step(x); });
  step(batch(8, 1));
  {
    const SettingsScope eigen({.cpu = {.kernels = CpuKernels::eigen}});
    step(batch(8, 1));
  }
  step(batch(8, 1));
  EXPECT_EQ(step.trace_count(), 2);
  EXPECT_EQ(step.trace_reasons()[1], "eigen kernels");
}

// The setting is part of the signature, and Winograd is used if it applies.
TEST(Compile, WinogradConvolutionsCanBeLeftOut) {
  if (!has_native_kernels()) GTEST_SKIP() << "no native kernels here";
  auto step =
      compile([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {.padding = 1}); });
  const auto algorithm = [&](DType dtype) {
    const Tensor x = cast(random_normal({4, 16, 16, 16}, 1), dtype);
    const Tensor w = cast(random_normal({16, 3, 3, 16}, 2), dtype);
    return std::string(step.prepare({x.spec(), w.spec()}).compiled_graph()->algorithms[0]);
  };
  EXPECT_EQ(algorithm(DType::f32), "winograd4");
  {
    const SettingsScope direct({.cpu = {.winograd = Winograd::off}});
    EXPECT_EQ(algorithm(DType::f32), "direct");
  }
  EXPECT_EQ(algorithm(DType::f64), "direct");
  EXPECT_EQ(step.trace_count(), 3);
  EXPECT_EQ(step.trace_reasons()[1], "no Winograd convolutions");
}

TEST(Compile, NothingIsAskedOfTheMachineAfterTheFirstRun) {
  Fixture f;
  auto step = compile([&](const Tensor& x) { return f.step(x); });
  CompiledStep& ready = step.prepare({batch(8, 1).spec()});
  ready.run();
  uint64_t before = cpu_memory().statistics().allocations;
  size_t live = cpu_memory().statistics().live_bytes;
  for (int i = 0; i < 5; ++i) ready.run();
  EXPECT_EQ(cpu_memory().statistics().allocations, before);
  EXPECT_EQ(cpu_memory().statistics().live_bytes, live);
}

// Two programs of one process each run with their own settings, in any scope.
TEST(Compile, APreparedStepKeepsItsSettings) {
  Fixture f;
  auto step = compile([&](const Tensor& x) { return f.step(x); });
  const auto prepared = [&](const Settings& with) -> CompiledStep& {
    const SettingsScope scope(with);
    return step.prepare({batch(8, 1).spec()});
  };
  CompiledStep& one = prepared({.threads = 1});
  CompiledStep& three = prepared({.threads = 3, .cpu = {.kernels = CpuKernels::eigen}});
  EXPECT_NE(&one, &three);
  EXPECT_EQ(&prepared({.threads = 1}), &one);
  EXPECT_EQ(one.signature().settings.threads, 1);
  EXPECT_EQ(three.signature().settings.cpu.kernels, CpuKernels::eigen);
  EXPECT_NE(step.trace_reasons()[1].find("3 threads instead of 1; eigen kernels"),
            std::string::npos)
      << step.trace_reasons()[1];
  class Seen : public NodeObserver {
   public:
    void begin(size_t) override { threads = settings().threads; }
    void end(size_t) override {}
    int threads = 0;
  };
  for (const auto& [ready, threads] : {std::pair(&one, 1), {&three, 3}, {&one, 1}}) {
    Seen seen;
    ready->program()->observe(&seen);
    const SettingsScope other({.threads = 2});
    ready->run();
    ready->program()->observe(nullptr);
    EXPECT_EQ(seen.threads, threads);
    EXPECT_EQ(settings().threads, 2);
  }
}

TEST(Compile, NamesTheFirstOpThatMadeANumberThatIsNotFinite) {
  Store store(1);
  const Tensor w = store.parameter("w", {4}, Initializer::ones());
  auto step = compile(
      [&](const Tensor& x) {
        const Tensor h = exp(x * w);
        const Tensor y = mean(log(h - 1.0) * 2.0);
        apply(std::make_shared<Descend>(1e-3), {w, gradients(y, Tensors{w})[0]});
        return y;
      },
      {.disabled_passes = {"fuse_pointwise", "fuse_epilogues"}});
  const auto run = [&](std::vector<float> x) {
    CompiledStep& ready = step.prepare({{DType::f32, {4}, {}}});
    Tensor(ready.input(0)).assign(std::span<const float>(x));
    ready.run();
    const auto weights = w.to_vector<float>();
    const auto found = ready.find_non_finite();
    EXPECT_EQ(w.to_vector<float>(), weights);  // the search updates nothing
    return found;
  };
  EXPECT_FALSE(run({1, 2, 3, 4}));
  const auto found = run({1, 2, 0, 4});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "log");
  EXPECT_EQ(found->element, 2);
  EXPECT_NE(found->text().find("log, produced -inf at element 2 of %"), std::string::npos)
      << found->text();
  EXPECT_NE(run({1, 2, std::nanf(""), 4})->text().find("nan at element 2 of %0"),
            std::string::npos);
  Tensor(w).assign(std::span<const float>(std::vector<float>{1, HUGE_VALF, 1, 1}));
  EXPECT_EQ(run({1, 2, 3, 4})->node, -1);
}

TEST(Compile, InEagerModeAProgramIsMadeToNameIt) {
  auto step = compile([](const Tensor& x) { return log(x); }, {.eager = true});
  CompiledStep& ready = step.prepare({{DType::f32, {3}, {}}});
  Tensor(ready.input(0)).assign(std::span<const float>(std::vector<float>{1, 0, 2}));
  ready.run();
  const auto found = ready.find_non_finite();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "log");
  EXPECT_EQ(found->element, 1);
  EXPECT_EQ(ready.outputs(), 1u);  // still those of the run
}

TEST(Compile, WhatIsAskedIsTheSumOfTheRegions) {
  Fixture f;
  auto step = compile([&](const Tensor& x) { return f.step(x); });
  size_t before = cpu_memory().statistics().live_bytes;
  CompiledStep& ready = step.prepare({{DType::f32, {8, 64}, {}}});
  EXPECT_EQ(cpu_memory().statistics().live_bytes, before);
  ready.run();
  Program& program = *ready.program();
  EXPECT_EQ(cpu_memory().statistics().live_bytes - before,
            f.store.bytes() + program.compiled().slot_bytes() + program.compiled().arena_bytes());
}

TEST(Compile, AfterRunningOutOfMemoryEverythingGoesOn) {
  const auto losses = [](bool disturbed) {
    Fixture f;
    LimitedMemory memory(cpu_memory(), 1 << 16);
    CompileOptions options;
    options.arenas = std::make_shared<Arenas>();
    options.arenas->add({}, Arena(memory));
    auto step = compile([&](const Tensor& x) { return f.step(x); }, options);
    std::vector<float> seen;
    for (uint64_t i = 0; i < 6; ++i) {
      seen.push_back(step(batch(8, i)).item<float>());
      if (!disturbed || i % 2 == 0) continue;
      EXPECT_THROW(step(batch(512, i)), OutOfMemory);
    }
    for (float v : f.a.to_vector<float>()) seen.push_back(v);
    EXPECT_LE(memory.statistics().live_bytes, size_t{1} << 16);
    return seen;
  };
  EXPECT_EQ(losses(true), losses(false));
}

TEST(Compile, AProgramThatBringsAllMemoryIsAskedForNone) {
  const uint64_t before = cpu_memory().statistics().allocations;
  alignas(kMemoryAlignment) static std::byte persistent[1 << 12], slots[1 << 16], arena[1 << 18];
  Fixture fixture;
  CompileOptions options;
  options.arenas = std::make_shared<Arenas>();
  options.arenas->add({}, Arena(cpu_memory(), ExternalMemory{arena, sizeof arena}));
  Compiled compiled(fixture.function(), options);
  CompiledStep& step = compiled.prepare({{DType::f32, {16, 64}, {}}});
  Program& program = *step.program();
  ASSERT_LE(program.compiled().arena_bytes(), sizeof arena);
  EXPECT_THROW(program.use_external_slots({slots, program.compiled().slot_bytes() - 1}),
               ConfigError);
  program.use_external_slots({slots, sizeof slots});
  fixture.store.materialize(
      Region("persistent", fixture.store.bytes(), {persistent, sizeof persistent}));
  std::vector<float> x(16 * 64, 0.5f);
  float first = 0, last = 0;
  for (int i = 0; i < 5; ++i) {
    Tensor(step.input(0)).assign(std::span<const float>(x));
    step.run();
    last = step.output(0).item<float>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first);
  EXPECT_EQ(cpu_memory().statistics().allocations, before);
  EXPECT_THROW(program.use_external_slots({slots, sizeof slots}), Error);
}

TEST(Capture, ReadingOrDeclaringUnderCaptureIsAnError) {
  Fixture f;
  auto reads = compile([&](const Tensor& x) { return x * mean(x).item<double>(); });
  try {
    reads(batch(2, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("captured"), std::string::npos) << error.what();
  }
  auto declares = compile([&](const Tensor& x) {
    f.store.parameter("late", {1}, Initializer::zeros());
    return x * 1.0;
  });
  EXPECT_THROW(declares(batch(2, 1)), Error);
}

TEST(Capture, OutsideTensorsAreReadAnewAndConstantsAreNot) {
  Tensor scale = scalar(2);
  auto read = compile([&](const Tensor& x) { return x * scale; });
  auto fixed = compile([&](const Tensor& x) { return x * constant(scale); });
  Tensor x = full({1}, 3.0);
  EXPECT_EQ(read(x).item<float>(), 6);
  EXPECT_EQ(fixed(x).item<float>(), 6);
  scale.assign_scalar(10);
  EXPECT_EQ(read(x).item<float>(), 30);
  EXPECT_EQ(fixed(x).item<float>(), 6);
}

TEST(Capture, GoingBackwardThroughAnUpdatedParameterIsAnError) {
  Fixture f;
  auto step = compile([&](const Tensor& x) {
    Tensor loss = mean(x * f.a * f.a);
    apply(std::make_shared<Descend>(0.1), {f.a, f.b});
    gradients(loss, Tensors{f.a});
    return loss;
  });
  try {
    step(batch(2, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("overwritten"), std::string::npos) << error.what();
  }
}

TEST(Capture, ArgumentsAndParametersHandedOutAreCopied) {
  Fixture f;
  auto same = compile([&](const Tensor& x) { return Tensors{x, f.a, reshape(x, {64, 2})}; });
  Tensor x = batch(2, 5);
  Tensors out = same(x);
  EXPECT_EQ(out[0].to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(out[1].to_vector<float>(), f.a.to_vector<float>());
  EXPECT_EQ(out[2].to_vector<float>(), x.to_vector<float>());
}

// Returns the parameters in the order of their updates.
std::vector<std::string> updated(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes)
    if (node.op->updates(0) >= 0) names.push_back(graph.values[node.inputs[0]].name);
  return names;
}

TEST(Passes, EachChangesTheGraphItIsMeantFor) {
  Fixture f;
  Tensor x = batch(8, 1);
  Graph dead = capture(
      [&](const Tensors& t) {
        exp(t[0]);
        return Tensors{t[0] * 2.0};
      },
      {x.spec()});
  EXPECT_EQ(eliminate_dead_code(dead), 1);
  EXPECT_EQ(dead.nodes.size(), 1u);

  Graph equal = capture(
      [&](const Tensors& t) { return Tensors{exp(t[0]) + exp(t[0]) * log(t[0])}; }, {x.spec()});
  EXPECT_EQ(eliminate_common_subexpressions(equal), 1);
  EXPECT_EQ(verify(equal), "");

  Graph chain =
      capture([&](const Tensors& t) { return Tensors{exp(t[0] * 2.0) + f.a}; }, {x.spec()});
  EXPECT_EQ(fuse_pointwise(chain), 2);
  ASSERT_EQ(chain.nodes.size(), 1u);
  EXPECT_EQ(chain.nodes[0].op->name(), "scale+exp+add");
  EXPECT_EQ(verify(chain), "");

  // The gradient of b is computed first, but the step updates a first.
  Graph step = capture(f.function(), {x.spec()});
  EXPECT_EQ(updated(step), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(order_updates(step), 1);
  EXPECT_EQ(updated(step), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(verify(step), "");
}

TEST(Passes, AnUpdateIsNeverDroppedOrMerged) {
  Fixture f;
  Graph twice = capture(
      [&](const Tensors& t) {
        Tensor g = mean(t[0]) * f.b;
        apply(std::make_shared<Descend>(0.1), {f.a, g});
        apply(std::make_shared<Descend>(0.1), {f.a, g});
        return Tensors{mean(t[0])};
      },
      {batch(2, 1).spec()});
  eliminate_dead_code(twice);
  eliminate_common_subexpressions(twice);
  int updates = 0;
  for (const Node& step : twice.nodes) updates += step.op->name() == "descend";
  EXPECT_EQ(updates, 2);
  EXPECT_EQ(verify(twice), "");
}

TEST(Passes, FusionDoesNotReadAnOverwrittenVersion) {
  Fixture f;
  // exp(a) is used after the update of a: it must not be computed there.
  auto capture_it = [&](bool late) {
    return capture(
        [&](const Tensors& t) {
          Tensor before = exp(f.a);
          apply(std::make_shared<Descend>(0.5), {f.a, f.b});
          return Tensors{before * (late ? mean(t[0]) : t[0])};
        },
        {TensorSpec{DType::f32, {64}, {}}});
  };
  Graph graph = capture_it(true);  // nor the product there: it needs the mean
  EXPECT_EQ(fuse_pointwise(graph), 0);
  EXPECT_EQ(verify(graph), "");
  graph = capture_it(false);  // the product moves to exp(a)
  EXPECT_EQ(fuse_pointwise(graph), 1);
  EXPECT_EQ(verify(graph), "");
  EXPECT_EQ(graph.nodes.front().op->name(), "exp+mul");
  EXPECT_EQ(graph.nodes.back().op->name(), "descend");
}

TEST(Verify, FindsWhatIsWrong) {
  Fixture f;
  Graph graph = capture(f.function(), {batch(8, 1).spec()});
  ASSERT_EQ(verify(graph), "");
  Graph swapped = graph;
  std::swap(swapped.nodes[0], swapped.nodes[1]);
  swapped.index();
  EXPECT_NE(verify(swapped).find("before it is computed"), std::string::npos);
  Graph misshaped = graph;
  misshaped.values[misshaped.nodes[0].outputs[0]].spec.shape = {1};
  EXPECT_NE(verify(misshaped).find("but the op returns"), std::string::npos);
  Graph early = graph;  // an update before a user of the old version
  auto update = std::find_if(early.nodes.begin(), early.nodes.end(),
                             [](const Node& s) { return s.op->updates(0) == 0; });
  Node moved = *update;
  early.nodes.erase(update);
  moved.inputs[1] = moved.inputs[0];
  early.nodes.insert(early.nodes.begin(), moved);
  early.index();
  EXPECT_NE(verify(early).find("overwritten"), std::string::npos) << verify(early);
}

TEST(Replay, NamesTheTensorAndTheOpOfAWrongLifetime) {
  Fixture f;
  CompileOptions options;
  options.disabled_passes = {"fuse_pointwise"};
  auto step = compile([&](const Tensor& x) { return f.step(x); }, options);
  Program& program = *step.prepare({batch(8, 1).spec()}).program();
  ASSERT_EQ(
      replay(program.compiled().graph, program.compiled().lifetimes, program.compiled().offsets),
      "");
  int caught = 0;
  for (size_t b = 0; b < program.compiled().lifetimes.blocks.size(); ++b) {
    Lifetimes wrong = program.compiled().lifetimes;
    if (wrong.blocks[b].slot || wrong.blocks[b].upper - wrong.blocks[b].lower < 2) continue;
    --wrong.blocks[b].upper;
    std::vector<int> of_interval;
    Plan plan = find_planner("best_fit")->solve(wrong.problem(&of_interval));
    std::vector<int64_t> offsets = program.compiled().offsets;
    for (size_t i = 0; i < of_interval.size(); ++i) offsets[of_interval[i]] = plan.offsets[i];
    // If the true lifetime overlaps another block now, the replay must report it.
    Problem truth = program.compiled().lifetimes.problem();
    bool broken = check(truth, plan).has_value();
    std::string fault = replay(program.compiled().graph, program.compiled().lifetimes, offsets);
    EXPECT_EQ(!fault.empty(), broken) << "block " << b << ": " << fault;
    if (!fault.empty()) {
      ++caught;
      EXPECT_NE(fault.find("node "), std::string::npos);
    }
  }
  EXPECT_GT(caught, 0);
}

TEST(Compile, AnOutOfMemoryErrorNamesTheTensorsAndTheHolders) {
  LimitedMemory memory(cpu_memory(), 5 << 20);
  void* taken = memory.allocate(2 << 20, "batches");
  CompileOptions options;
  options.arenas = std::make_shared<Arenas>();
  options.arenas->add({}, Arena(memory));
  auto step = compile(
      [](const Tensor& x) {
        Tensor wide;
        {
          const ModulePathScope block("block"), conv("conv1");
          wide = expand(x, {16, 1 << 16});
        }
        return sum(wide * wide);
      },
      options);
  try {
    step(ones({1 << 16}));
    FAIL() << "4 MiB do not fit beside 2 of 5 MiB";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    for (const char* part :
         {"arena region: cpu:0: out of memory: ",
          " under a limit of 5242880, held by batches 2.00 MiB", "requested for: arena",
          "at most 3.00 MiB would fit", "the largest tensors at the peak:", "4.00 MiB  %",
          " expand float32[16x65536]  block.conv1"})
      EXPECT_NE(text.find(part), text.npos) << part << " is missing in: " << text;
  }
  memory.release(taken, 2 << 20);
  EXPECT_EQ(step(ones({1 << 16})).item<float>(), 1 << 20);  // still usable
}

}  // namespace
}  // namespace tessera
