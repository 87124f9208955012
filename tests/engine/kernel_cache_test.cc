#include <thread>

#include "tessera/engine/prepare.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

int prepared = 0, live = 0;

// y = x + shift, computed by kernels that are counted.
class Shift final : public OpBase<Shift> {
 public:
  explicit Shift(int shift) : params(shift) {}
  std::string_view name() const override { return "shift"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  std::unique_ptr<Kernel> prepare(SpecView, Context&, const Algorithm&) const override {
    return std::make_unique<Counted>(params);
  }
  const int params;

 private:
  class Counted final : public Kernel {
   public:
    explicit Counted(int shift) : shift_(shift) { ++prepared, ++live; }
    ~Counted() override { --live; }
    void run(Context&, Buffers in, Buffers out, Buffer) override {
      for (int64_t i = 0; i < in[0].elements(); ++i)
        out[0].as<float>()[i] = in[0].as<float>()[i] + static_cast<float>(shift_);
    }

   private:
    const int shift_;
  };
};

Tensor shift(const Tensor& x, int by) { return apply1(std::make_shared<Shift>(by), {x}); }

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { kernel_cache() = {}, prepared = 0; }
  // Returns the number of kernels that `call` prepares.
  template <class Call>
  int count(Call&& call) {
    const int before = prepared;
    call();
    return prepared - before;
  }
};

TEST_F(KernelCacheTest, EqualCallsPrepareOnce) {
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(shift(full({3}, i), 2).to_vector<float>(),
              std::vector<float>(3, static_cast<float>(i + 2)));
  EXPECT_EQ(prepared, 1);
}

TEST_F(KernelCacheTest, WhateverAKernelDependsOnPreparesAnew) {
  const Tensor x = ones({4, 2});
  const auto call = [&] { shift(x, 1); };
  EXPECT_EQ(count(call), 1);
  EXPECT_EQ(count([&] { EXPECT_EQ(shift(x, 5).to_vector<float>()[0], 6); }), 1) << "settings";
  EXPECT_EQ(count([&] { shift(ones({2, 4}), 1); }), 1) << "shape";
  EXPECT_EQ(count([&] { shift(ones({4, 2}, DType::i32), 1); }), 1) << "dtype";
  EXPECT_EQ(count(call), 0);
  const auto within = [&](const Settings& with) {
    const SettingsScope scope(with);
    return count(call);
  };
  EXPECT_EQ(within({.threads = settings().threads + 1}), 1) << "threads";
  EXPECT_EQ(within({.cpu = {.kernels = CpuKernels::eigen}}), 1) << "kernels";
  EXPECT_EQ(within({.gpu = {.tf32 = false}}), 1) << "settings of GPUs";
  EXPECT_EQ(count(call), 0) << "as at first";
}

TEST_F(KernelCacheTest, AreBounded) {
  constexpr auto kMax = static_cast<int>(KernelCache::kSets * KernelCache::kWays);
  const Tensor x = ones({1});
  for (int i = 0; i < 2 * kMax; ++i) {
    shift(ones({i % 100 + 1}), i);
    EXPECT_LE(live, kMax);
    EXPECT_LE(count([&] { shift(x, 0); }), i == 0) << "what is in use stays";
  }
  EXPECT_GT(live, kMax / 4);
}

// The kernel of the first op runs for all equivalent ops.
TEST_F(KernelCacheTest, TheOpLivesAsLongAsItsKernel) {
  auto first = std::make_shared<Shift>(1);
  const std::weak_ptr<Shift> watched = first;
  const Tensor x = ones({2});
  apply1(std::move(first), {x});
  EXPECT_FALSE(watched.expired());
  shift(x, 1);
  kernel_cache() = {};
  EXPECT_TRUE(watched.expired());
}

TEST_F(KernelCacheTest, EachThreadHasItsOwn) {
  const Tensor x = ones({2});
  shift(x, 1);
  const int before = live;
  std::thread([&] {
    EXPECT_EQ(count([&] { shift(x, 1); }), 1);
    EXPECT_EQ(count([&] { shift(x, 1); }), 0);
  }).join();
  EXPECT_EQ(live, before) << "they go with the thread";
}

}  // namespace
}  // namespace tessera
