// Calls of compiled functions: ownership of results, threads, memory.
#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/eager.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/arena.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(CompiledCalls, ALaterCallLeavesTheResultsOfAnEarlierOneAsTheyAre) {
  auto f = compile([](const Tensors& x) { return Tensors{x[0] * 2.0, sum(x[0])}; });
  const auto check = [&] {
    const Tensors first = f(Tensors{full({3}, 1.0)}), second = f(Tensors{full({3}, 10.0)});
    f.step(f.steps() - 1).run();
    EXPECT_EQ(first[0].to_vector<float>(), (std::vector<float>{2, 2, 2}));
    EXPECT_EQ(first[1].item<float>(), 3);
    EXPECT_EQ(second[0].to_vector<float>(), (std::vector<float>{20, 20, 20}));
    EXPECT_EQ(second[1].item<float>(), 30);
  };
  check();
  const NoGradScope no_grad;
  check();
}

// A run would already have updated the parameters.
TEST(CompiledCalls, WithoutMemoryForItsResultsACallDoesNothing) {
  Store store(1);
  const Tensor w = store.parameter("w", {64}, Initializer::ones());
  Sgd sgd(store, store.parameters(), {});
  auto step = compile([&](const Tensor& x) {
    sgd.step(Tensors{x}, scalar(1));
    return x * 2.0;
  });
  const Tensor x = full({64}, 0.5);
  step(x);
  {
    const EagerAllocatorScope none({}, "direct", {.limit = 128});
    EXPECT_THROW(step(x), OutOfMemory);
  }
  EXPECT_EQ(w.to_vector<float>(), std::vector<float>(64, 0.5f));
}

// y = x, and calls fn.
class Meanwhile final : public OpBase<Meanwhile> {
 public:
  explicit Meanwhile(const std::function<void()>& fn) : params{&fn} {}
  std::string_view name() const override { return "meanwhile"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    std::copy_n(in[0].as<float>(), in[0].elements(), out[0].as<float>());
    (*params)();
  }
  const std::function<void()>* params;
};

TEST(CompiledCalls, AnotherThreadThatCallsMeanwhileIsAnError) {
  CompileOptions options;
  options.arenas = std::make_shared<Arenas>();
  auto neighbour = compile([](const Tensor& x) { return x + 1.0; }, options);
  std::vector<std::string> said;
  std::function<void()> meanwhile;
  auto f = compile(
      [&](const Tensor& x) { return apply1(std::make_shared<Meanwhile>(meanwhile), {x}) * 2.0; },
      options);
  meanwhile = [&] {
    const auto tell = [&](const std::function<void()>& use) {
      std::thread([&] {
        try {
          use();
        } catch (const ConcurrentCall& error) {
          said.emplace_back(error.what());
        }
      }).join();
    };
    tell([&] { f(full({3}, 7.0)); });
    tell([&] { neighbour(full({3}, 7.0)); });
    tell([&] { f.prepare({{DType::f32, {4}, {}}}); });
    tell([&] { f.step(0).run(); });
  };
  const NoGradScope no_grad;
  EXPECT_EQ(f(full({3}, 1.0)).to_vector<float>(), (std::vector<float>{2, 2, 2}));
  ASSERT_EQ(said.size(), 4u);
  for (const std::string& text : said) {
    EXPECT_NE(text.find("compiled function of (float32["), std::string::npos) << text;
    EXPECT_NE(text.find("use one compiled function per thread"), std::string::npos);
  }
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_EQ(f.step(0).output(0).to_vector<float>()[0], 2);
}

TEST(CompiledCalls, CallsOfTwoThreadsAreRightOrErrors) {
  auto f = compile([](const Tensor& x) { return sum(x * x) + x; });
  std::atomic<int> right = 0, wrong = 0, refused = 0;
  const auto calls = [&](float value) {
    const NoGradScope no_grad;
    const Tensor x = full({1000}, value);
    for (int i = 0; i < 200; ++i) {
      try {
        const Tensor y = f(x);
        std::this_thread::yield();
        const std::vector<float> seen = y.to_vector<float>();
        ++(seen == std::vector<float>(1000, 1000 * value * value + value) ? right : wrong);
      } catch (const ConcurrentCall&) {
        ++refused;
      }
    }
  };
  std::thread other([&] { calls(1); });
  calls(2);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(right + refused, 400);
  EXPECT_GT(right, 0);
}

// Uses public headers alone: external memory for the arena once its size is known, and one external
// block for the slots of a function and of its gradient.
TEST(CompiledCalls, AStepTakesMemoryThatIsBroughtOnceItIsPlanned) {
  Store store(1);
  const Tensor w = store.parameter("w", {64}, Initializer::ones());
  auto f = compile([&](const Tensor& x) { return sum(exp(x * w) * x); });
  CompiledStep& step = f.prepare({{DType::f32, {64}, {}}});
  ASSERT_NE(step.gradient_program(), nullptr);
  alignas(kMemoryAlignment) static std::byte slots[1 << 12], arena[1 << 12];
  ASSERT_LE(step.slot_bytes(), sizeof slots);
  const size_t arena_bytes = f.arenas()->bytes({});
  ASSERT_GT(arena_bytes, 0u);
  ASSERT_LE(arena_bytes, sizeof arena);
  for (const size_t bytes : {step.slot_bytes() - 1, size_t{0}})
    EXPECT_THROW(step.use_external_slots({slots, bytes}), ConfigError);
  step.use_external_slots({slots, step.slot_bytes()});
  f.arenas()->on({}).bring({arena, arena_bytes});
  store.materialize();
  const uint64_t before = cpu_memory().statistics().allocations;
  step.run();
  EXPECT_EQ(cpu_memory().statistics().allocations, before);
  EXPECT_THROW(step.use_external_slots({slots, sizeof slots}), Error);
  EXPECT_THROW(f.arenas()->on({}).bring({arena, sizeof arena}), Error);
  const Tensor x = full({64}, 0.5);
  EXPECT_EQ(f(x).item<float>(), sum(exp(x * w) * x).item<float>());
  EXPECT_EQ(gradients(f(x), Tensors{w})[0].to_vector<float>(),
            gradients(sum(exp(x * w) * x), Tensors{w})[0].to_vector<float>());

  auto eager = compile([](const Tensor& t) { return t * 2.0; }, {.eager = true});
  EXPECT_THROW(eager.prepare({{DType::f32, {1}, {}}}).use_external_slots({slots, sizeof slots}),
               Error);
}

}  // namespace
}  // namespace tessera
