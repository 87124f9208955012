// gather, its gradient and one_hot on a GPU give the bits of the CPU.
#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/graph/compile.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

using CudaIndexing = OnGpu;
constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::u8, DType::i32, DType::i64};
constexpr DType kIntegers[] = {DType::u8, DType::i32, DType::i64};

struct Case {
  Shape x;
  int axis;
  int64_t count;  // indices along the axis
};
const Case kCases[] = {{{1}, 0, 1},          {{7}, 0, 700},   {{4099}, 0, 5},    {{33, 10}, 1, 1},
                       {{33, 10}, 1, 17},    {{6, 37}, 0, 9}, {{3, 5, 8}, 1, 4}, {{3, 5, 8}, 0, 3},
                       {{2, 3, 1, 5}, 1, 4}, {{4, 3}, 1, 0},  {{0, 3}, 1, 2},    {{4, 0}, 1, 0}};

Tensor numbers(const Shape& shape, DType dtype) {
  return cast(random_uniform(shape, 21, 0, 100, DType::f64), dtype);
}

// Returns indices within the axis, counted from either end if the dtype is signed.
Tensor indices(const Case& c, DType dtype) {
  Shape shape = c.x;
  shape[c.axis] = c.count;
  const double size = static_cast<double>(c.x[c.axis]);
  const Tensor from_zero = random_uniform(shape, 22, 0, size, DType::f64);
  // Truncation towards 0 turns -0.5 into 0, so no index is below -size.
  return dtype == DType::u8 ? cast(from_zero, dtype) : cast(from_zero * 2 - size, dtype);
}

void expect_bits(const DeviceFunction& f, const Tensors& inputs, DType dtype,
                 const std::string& what) {
  for (const Placed placed : {Placed::aligned, Placed::off_by_one})
    EXPECT_TRUE(gpu_has_cpu_bits(f, inputs, dtype, placed))
        << what << (placed == Placed::aligned ? "" : ", off by one");
}

TEST_F(CudaIndexing, GatherOfEveryDType) {
  for (const Case& c : kCases)
    for (const DType dtype : kDTypes)
      for (const DType index : kIntegers) {
        if (index == DType::u8 && c.x[c.axis] > 256) continue;
        expect_bits([&](const Tensors& in) { return Tensors{gather(in[0], c.axis, in[1])}; },
                    {numbers(c.x, dtype), indices(c, index)},
                    dtype == DType::f32 ? DType::f32 : DType::f64,
                    c.x.text() + " " + std::string(name_of(dtype)));
      }
}

// Many indices name the same element, so their order shows in the bits.
TEST_F(CudaIndexing, GradientsOfGatherAddInOrder) {
  for (const Case& c : kCases)
    for (const DType type : kIntegers) {
      if (type == DType::u8 && c.x[c.axis] > 256) continue;
      const Tensor index = indices(c, type);
      const auto f = [&](const Tensors& in) {
        const Tensor x = requires_grad(detach(in[0])), dy = requires_grad(detach(in[1]));
        const Tensor y = gather(x, c.axis, in[2]);
        const std::vector<Tensor> to{x};
        const Tensor dx = gradients(y, to, dy, CreateGraph::yes)[0];
        // The gradient of the gradient is a gather again.
        return Tensors{dx, gradients(dx, std::vector{dy}, in[0])[0]};
      };
      for (const DType dtype : {DType::f32, DType::f64})
        expect_bits(f, {random_normal(c.x, 23), random_normal(index.shape(), 24), index}, dtype,
                    c.x.text());
    }
}

// Tables with more elements than threads: each thread has several elements, the last one fewer.
TEST_F(CudaIndexing, GradientsOfALargeTableAddInOrder) {
  for (const auto& [x, count] : {std::pair{Shape{140'001}, 700}, {Shape{40'000, 3}, 130}}) {
    Shape shape = x;
    shape[0] = count;
    const double size = static_cast<double>(x[0]);
    // Half of the indices are anywhere in the table, half among its last elements, with many
    // repeats.
    const Tensor anywhere = random_uniform(shape, 27, 0, size, DType::f64),
                 last = random_uniform(shape, 28, size - 5, size, DType::f64),
                 choice = random_uniform(shape, 29, -1, 1, DType::f64);
    const Tensor index = cast(where(greater(choice, 0), anywhere, last), DType::i32);
    const auto f = [](const Tensors& in) {
      const Tensor table = requires_grad(detach(in[0]));
      return gradients(gather(table, 0, in[1]), std::vector{table}, in[2]);
    };
    for (const DType dtype : {DType::f32, DType::f64})
      expect_bits(f, {random_normal(x, 30), index, random_normal(shape, 31)}, dtype, x.text());
  }
}

TEST_F(CudaIndexing, OneHotOfEveryDType) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{33}, Shape{5, 3}})
    for (const int64_t classes : {1, 3, 10, 16, 200})
      for (const DType dtype : kDTypes)
        for (const DType type : kIntegers) {
          const Tensor labels =
              cast(random_uniform(shape, 25, 0, static_cast<double>(classes), DType::f64), type);
          expect_bits([&](const Tensors& in) { return Tensors{one_hot(in[0], classes, dtype)}; },
                      {labels}, DType::f64, shape.text() + " " + std::string(name_of(dtype)));
        }
}

TEST_F(CudaIndexing, OneHotCountsFromTheEnd) {
  expect_gpu_has_cpu_bits([](const Tensors& in) { return Tensors{one_hot(in[0], 5)}; },
                          {from_vector<int32_t>({4}, {-1, 0, -5, 4})});
}

// Compares f for indices out of range, which only a captured step accepts on the CPU.
TEST_F(CudaIndexing, WhatIsOutsideIsAsInACapturedStep) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  const Tensor index = from_vector<int64_t>({2, 4}, {-4, 3, 1, kFar, -3, -kFar - 1, 2, 300});
  const auto f = [](const Tensors& in) {
    const Tensor x = requires_grad(detach(in[0]));
    const Tensor y = gather(x, 1, in[1]);
    Tensors results = gradients(y, std::vector{x}, in[2]);
    results.push_back(detach(y));
    results.push_back(one_hot(in[1], 3));
    for (const DType dtype : {DType::u8, DType::i32, DType::i64})
      results.push_back(gather(cast(in[0], dtype), 1, in[1]));
    return results;
  };
  const Tensors inputs{numbers({2, 3}, DType::f64), index, random_normal({2, 4}, 26)};
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensors rounded;
    for (const Tensor& x : inputs) rounded.push_back(in_dtype(x, dtype));
    auto step = compile(f);
    const Tensors right = step(rounded), found = run_on_gpu(f, inputs, dtype);
    ASSERT_EQ(right.size(), found.size());
    for (size_t i = 0; i < right.size(); ++i) {
      const Tensor mine = copy(right[i]);
      ASSERT_EQ(mine.spec(), found[i].spec());
      EXPECT_EQ(std::memcmp(mine.impl()->data(), found[i].impl()->data(), mine.spec().bytes()), 0)
          << i;
    }
  }
}

}  // namespace
}  // namespace tessera
