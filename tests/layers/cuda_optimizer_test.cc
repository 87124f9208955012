// Updates on a GPU have the bits of the CPU's, and are skipped for the same gradients.
#include <cmath>

#include "tessera/engine/scope.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/lamb.h"
#include "tessera/layers/optimizers/lars.h"
#include "tessera/layers/optimizers/lion.h"
#include "tessera/layers/optimizers/muon.h"
#include "tessera/layers/optimizers/rmsprop.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

using CudaOptimizer = OnGpu;
const Device kGpu{DeviceKind::gpu, 0};

// Sizes around those of packs, warps, blocks and parts; one has several parts.
const std::vector<Shape> kShapes{{1}, {0}, {3}, {4, 33}, {4096}, {65, 127}, {5, 4099}, {2, 2}};

// Returns the parameters and states after three steps on a device; `spoil` may change the gradients
// of the second step and returns its lr.
template <class Optimizer, class Params>
Tensors trained(Device device, DType dtype, const Params& params, size_t repeat,
                const std::function<double(Tensors&)>& spoil, uint64_t steps = 3) {
  const DeviceScope scope(device);
  Store store(1, dtype);
  Tensors parameters;
  for (size_t r = 0; r < repeat; ++r)
    for (const Shape& shape : kShapes)
      parameters.push_back(
          store.parameter(std::to_string(parameters.size()), shape, Initializer::normal(1)));
  Optimizer optimizer(store, parameters, params);
  for (uint64_t step = 1; step <= steps; ++step) {
    Tensors gradients;
    double lr = 0.1;
    {
      const DeviceScope host{Device{}};
      for (size_t i = 0; i < parameters.size(); ++i)
        gradients.push_back(random_normal(parameters[i].shape(), step * 1000 + i, 0, 1, dtype));
      if (step == 2) lr = spoil(gradients);
    }
    for (Tensor& g : gradients) g = copy(g, device);
    optimizer.step(gradients, copy(from_vector<float>({1}, {static_cast<float>(lr)}), device));
  }
  Tensors all = store.parameters();
  for (const Tensor& state : store.optimizer_states()) all.push_back(state);
  for (Tensor& x : all) x = copy(x, Device{});
  return all;
}

void expect_equal(const Tensors& right, const Tensors& found) {
  ASSERT_EQ(right.size(), found.size());
  for (size_t i = 0; i < right.size(); ++i)
    EXPECT_EQ(
        std::memcmp(right[i].impl()->data(), found[i].impl()->data(), right[i].spec().bytes()), 0)
        << i << " " << right[i].spec().text();
}

template <class Optimizer, class Params>
void expect_same(
    const Params& params,
    const std::function<double(Tensors&)>& spoil = [](Tensors&) { return 0.1; }) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const int64_t cpu_before = context(Device{}).skipped_updates();
    const Tensors right = trained<Optimizer>(Device{}, dtype, params, 1, spoil);
    const int64_t cpu_refused = context(Device{}).skipped_updates() - cpu_before;
    const int64_t gpu_before = context(kGpu).skipped_updates();
    const Tensors found = trained<Optimizer>(kGpu, dtype, params, 1, spoil);
    EXPECT_EQ(context(kGpu).skipped_updates() - gpu_before, cpu_refused);
    expect_equal(right, found);
  }
}

// More tensors than one op takes; one of them begins inside a pack.
TEST_F(CudaOptimizer, TensorsAreScaledTogether) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto scaled = [&](Device device) {
      Tensors all;
      for (uint64_t i = 0; i < 70; ++i)
        all.push_back(random_normal(kShapes[i % kShapes.size()], i, 0, 1, dtype));
      all.push_back(cast(from_vector<float>({2}, {INFINITY, -INFINITY}), dtype));
      Tensor factor = scalar(0.3, dtype);
      for (Tensor& x : all) x = copy(x, device);
      factor = copy(factor, device);
      const DeviceScope scope(device);
      all.push_back(rows(all[4], 1, 4000));
      all = scaled_by(all, factor);
      for (Tensor& x : all) x = copy(x, Device{});
      return all;
    };
    expect_equal(scaled(Device{}), scaled(kGpu));
  }
}

TEST_F(CudaOptimizer, SgdHasTheBitsOfTheCpu) {
  expect_same<Sgd>(SgdParams{});
  expect_same<Sgd>(SgdParams{.weight_decay = 0.25, .decay_vectors = false, .vector_lr = 3});
  expect_same<Sgd>(SgdParams{.momentum = 0.9, .weight_decay = 0.25});
  expect_same<Sgd>(SgdParams{.momentum = 0.9, .nesterov = true, .decay_vectors = false});
}

double spoil_some(Tensors& gradients) {
  std::vector<double> numbers(static_cast<size_t>(gradients[4].elements()), 0.5);
  numbers.back() = HUGE_VAL;
  const Tensor bad = from_vector(gradients[4].shape(), numbers);
  gradients[4] = gradients[4].dtype() == DType::f64 ? bad : cast(bad, DType::f32);
  return 0.1;
}

TEST_F(CudaOptimizer, UpdatesByProgramsHaveTheBitsOfTheCpu) {
  expect_same<AdamW>(AdamWParams{.weight_decay = 0.25, .coupled = true});
  for (const bool in_root : {false, true}) {
    expect_same<Rmsprop>(RmspropParams{.eps_in_root = in_root, .weight_decay = 0.25});
    expect_same<Rmsprop>(RmspropParams{.momentum = 0.9, .eps_in_root = in_root}, spoil_some);
  }
  expect_same<Lion>(LionParams{.weight_decay = 0.25, .vector_lr = 3}, spoil_some);
  expect_same<Lion>(LionParams{}, [](Tensors&) { return std::nan(""); });
}

// Allows another order of sums and products.
template <class Optimizer, class Params>
void expect_near(const Params& params) {
  const auto plain = [](Tensors&) { return 0.1; };
  const Tensors right = trained<Optimizer>(Device{}, DType::f64, params, 1, plain);
  const Tensors found = trained<Optimizer>(kGpu, DType::f64, params, 1, plain);
  ASSERT_EQ(right.size(), found.size());
  for (size_t i = 0; i < right.size(); ++i) {
    if (right[i].dtype() != DType::f64) continue;
    const auto a = right[i].to_vector<double>(), b = found[i].to_vector<double>();
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-9) << i << " " << k;
  }
}

TEST_F(CudaOptimizer, UpdatesByNormsAndProductsAreNearThoseOfTheCpu) {
  expect_near<Lamb>(LambParams{});
  expect_near<Lars>(LarsParams{.nesterov = true, .weight_decay = 0.1});
  expect_near<Muon>(MuonParams{});
}

TEST_F(CudaOptimizer, AMirrorIsThatOfTheCpu) {
  std::vector<uint8_t> bytes(2 * 3 * 5 * 3);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  const Tensor images = from_vector({2, 3, 5, 3}, bytes);
  const auto right = flip_left_right(images).to_vector<uint8_t>();
  const DeviceScope scope(kGpu);
  EXPECT_EQ(flip_left_right(copy(images, kGpu)).to_vector<uint8_t>(), right);
  EXPECT_EQ(flip_left_right(flip_left_right(copy(images, kGpu))).to_vector<uint8_t>(), bytes);
}

TEST_F(CudaOptimizer, MoreTensorsThanATableHolds) {
  for (const size_t repeat : {size_t{3}, size_t{65}}) {
    const auto plain = [](Tensors&) { return 0.1; };
    const SgdParams params{.momentum = 0.9};
    expect_equal(trained<Sgd>(Device{}, DType::f32, params, repeat, plain, 1),
                 trained<Sgd>(kGpu, DType::f32, params, repeat, plain, 1));
  }
}

// Only the last bit of pow() depends on the library.
TEST_F(CudaOptimizer, AdamWMatches) {
  for (const bool decay_vectors : {false, true}) {
    const AdamWParams params{
        .weight_decay = 0.25, .decay_vectors = decay_vectors, .vector_lr = 0.5};
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto plain = [](Tensors&) { return 0.1; };
      const Tensors right = trained<AdamW>(Device{}, dtype, params, 3, plain);
      const Tensors found = trained<AdamW>(kGpu, dtype, params, 3, plain);
      for (size_t i = 0; i < right.size(); ++i) {
        const std::vector<double> a = as_doubles(right[i]), b = as_doubles(found[i]);
        for (size_t k = 0; k < a.size(); ++k)
          ASSERT_NEAR(a[k], b[k], gpu_tolerance(dtype) * std::abs(a[k])) << i << " " << k;
      }
    }
  }
}

TEST_F(CudaOptimizer, WhatIsNotFiniteChangesNothing) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const auto gradient = [&](Tensors& gradients) {  // one element of two tensors
      for (const size_t i : {size_t{0}, size_t{6}}) {
        std::vector<double> values = as_doubles(gradients[i]);
        values.back() = bad;
        gradients[i] =
            cast(from_vector<double>(gradients[i].shape(), values), gradients[i].dtype());
      }
      return 0.1;
    };
    expect_same<Sgd>(SgdParams{.momentum = 0.9}, gradient);
    expect_same<Sgd>(SgdParams{.momentum = 0.9}, [&](Tensors&) { return bad; });
    expect_same<AdamW>(AdamWParams{}, gradient);
    expect_same<AdamW>(AdamWParams{}, [&](Tensors&) { return bad; });
  }
}

TEST_F(CudaOptimizer, TheLearningRateOfAllOrNothing) {
  Tensors tensors;
  for (const Shape& shape : kShapes) tensors.push_back(random_normal(shape, 1));
  const auto rate = [](const Tensors& in) {
    return Tensors{lr_if_finite(in[0], {in.begin() + 1, in.end()})};
  };
  tensors.insert(tensors.begin(), from_vector<float>({1}, {0.5f}));
  expect_gpu_has_cpu_bits(rate, tensors, kComputedTypes);
  expect_gpu_has_cpu_bits(rate, {tensors[0]}, kComputedTypes);
  tensors[6] = tensors[6] * from_vector<float>({1}, {HUGE_VALF});
  EXPECT_TRUE(std::isnan(as_doubles(run_on_gpu(rate, tensors, DType::f32)[0])[0]));
  EXPECT_TRUE(std::isnan(as_doubles(run_on_gpu(rate, tensors, DType::f64)[0])[0]));
}

}  // namespace
}  // namespace tessera
