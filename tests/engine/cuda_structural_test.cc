// Structural ops on a GPU give the bits of the CPU; sums, which have another order, its values.
#include <cmath>

#include "tessera/engine/autograd.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

using CudaStructural = OnGpu;
constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::u8, DType::i32, DType::i64};

// Returns numbers that every dtype has.
Tensor numbers(const Shape& shape, DType dtype = DType::f32) {
  return cast(random_uniform(shape, 7, 0, 100, DType::f64), dtype);
}

// Compares in the dtypes of the inputs.
void expect_bits(const DeviceFunction& f, const Tensors& inputs, const std::string& what) {
  for (const Placed placed : {Placed::aligned, Placed::off_by_one})
    EXPECT_TRUE(gpu_has_cpu_bits(f, inputs, DType::f32, placed)) << what;
}

TEST_F(CudaStructural, Fill) {
  for (const DType dtype : kDTypes)
    for (const Shape& shape : {Shape{0}, Shape{}, Shape{7}, Shape{5000, 3}})
      expect_bits([&](const Tensors&) { return Tensors{full(shape, 3, dtype)}; }, {},
                  std::string(name_of(dtype)));
}

TEST_F(CudaStructural, CastOfEveryPair) {
  for (const DType from : kDTypes)
    for (const DType to : kDTypes)
      for (const int64_t count : {0, 1, 31, 5001}) {
        const Tensor x = numbers({count}, from);
        // gpu_has_cpu_bits changes the dtype of floats, so they are cast once more.
        const auto f = [&](const Tensors& in) { return Tensors{cast(cast(in[0], from), to)}; };
        for (const Placed placed : {Placed::aligned, Placed::off_by_one})
          EXPECT_TRUE(gpu_has_cpu_bits(f, {x}, DType::f64, placed))
              << name_of(from) << " " << name_of(to) << " " << count;
      }
}

TEST_F(CudaStructural, Expand) {
  struct Case {
    Shape from, to;
  };
  for (const auto& [from, to] :
       {Case{{}, {3, 5}}, Case{{16}, {7, 16}}, Case{{5}, {7, 5}}, Case{{7, 1}, {7, 32}},
        Case{{4, 1, 6}, {4, 5, 6}}, Case{{1, 5, 1, 3}, {2, 3, 5, 4, 3}}, Case{{1}, {0}},
        Case{{2, 1, 3, 1, 2}, {2, 3, 3, 5, 2}}})
    for (const DType dtype : kDTypes)
      expect_bits([&, to = to](const Tensors& in) { return Tensors{expand(in[0], to)}; },
                  {numbers(from, dtype)}, to.text());
}

TEST_F(CudaStructural, Permute) {
  const std::vector<std::vector<int>> orders{
      {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 3, 1, 2}, {1, 0, 2, 3}};
  for (const Shape& shape : {Shape{3, 5, 2, 7}, Shape{2, 4, 6, 16}, Shape{2, 0, 3, 1}})
    for (const std::vector<int>& order : orders)
      for (const DType dtype : kDTypes)
        expect_bits([&](const Tensors& in) { return Tensors{permute(in[0], order)}; },
                    {numbers(shape, dtype)}, shape.text());
  expect_gpu_has_cpu_bits(
      [](const Tensors& in) {
        const Tensor x = requires_grad(detach(in[0]));
        return gradients(permute(x, {2, 0, 1}), std::vector{x}, in[1]);
      },
      {numbers({4, 3, 5}), numbers({5, 4, 3})});
}

TEST_F(CudaStructural, RowsAndTheirGradient) {
  for (const int64_t begin : {0, 2, 5})
    for (const int64_t end : {5, 9}) {
      expect_gpu_has_cpu_bits(
          [&](const Tensors& in) {
            const Tensor x = requires_grad(detach(in[0]));
            return gradients(sum(rows(x, begin, end) * in[1]), std::vector{x});
          },
          {numbers({9, 3}), numbers({end - begin, 3})});
    }
}

TEST_F(CudaStructural, SumsOverEveryRun) {
  const auto summed = [](const Shape& to) {
    return [to](const Tensors& in) { return Tensors{sum_to(in[0], to)}; };
  };
  for (const int64_t n : {1, 31, 33, 4099, 8192, 100'000})
    expect_gpu_matches(summed({}), {numbers({n})}, kComputedTypes);
  for (const int64_t c : {1, 3, 4, 10, 37, 64, 132})
    for (const int64_t n : {2, 33, 700})
      expect_gpu_matches(summed({c}), {numbers({n, c})}, kComputedTypes);
  expect_gpu_matches(summed({33'000, 1}), {numbers({33'000, 3})}, kComputedTypes);
  expect_gpu_matches(summed({5, 1}), {numbers({5, 5000})}, kComputedTypes);
  expect_gpu_matches(summed({5, 1, 8}), {numbers({5, 1000, 8})}, kComputedTypes);
  expect_gpu_matches(summed({3, 1, 1, 5}), {numbers({3, 4, 9, 5})}, kComputedTypes);
  expect_gpu_matches(summed({1, 4}), {numbers({0, 4})}, kComputedTypes);
  expect_gpu_matches(summed({0, 1}), {numbers({0, 4})}, kComputedTypes);
}

// A sum is accurate even if many terms cancel.
TEST_F(CudaStructural, SumOfTermsThatCancel) {
  expect_gpu_matches([](const Tensors& in) { return Tensors{sum(in[0])}; },
                     {random_normal({100'003}, 3)});
}

TEST_F(CudaStructural, SumsOfIntegersWrapAround) {
  std::vector<int64_t> values(6000, int64_t{1} << 62);
  values[17] = -5;
  const Tensor x = from_vector<int64_t>({6000}, values);
  expect_bits(
      [](const Tensors& in) {
        return Tensors{sum(in[0]), sum(in[0], {1})};
      },
      {reshape(x, {1500, 4})}, "i64");
}

TEST_F(CudaStructural, GradientsOfExpandAndSum) {
  expect_gpu_matches(
      [](const Tensors& in) {
        const Tensor x = requires_grad(detach(in[0]));
        return gradients(sum(expand(x, {6, 5, 7}) * in[1]), std::vector{x});
      },
      {numbers({5, 1}), numbers({6, 5, 7})});
  expect_gpu_matches(
      [](const Tensors& in) {
        const Tensor x = requires_grad(detach(in[0]));
        return gradients(sum(sum(x, {0}) * in[1]), std::vector{x});
      },
      {numbers({50, 7}), numbers({7})});
}

}  // namespace
}  // namespace tessera
