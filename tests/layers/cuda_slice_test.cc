// Tests of ops that only move elements: slice, pad, shortcut, concat.
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

class CudaSlice : public OnGpu {};

Tensor values(const Shape& shape, uint64_t key) {
  return random_normal(shape, key, 0, 1, DType::f64);
}

// Also compares the gradients of all inputs.
void expect_cpu_bits(const DeviceFunction& f, Tensors in) {
  const size_t count = in.size();
  in.push_back(values(f(in)[0].shape(), 99));
  expect_gpu_has_cpu_bits(with_gradients(f, count), in);
}

TEST_F(CudaSlice, EveryAxisAndStep) {
  for (const Shape& shape : {Shape{6, 7, 8}, Shape{5, 40, 9}})
    for (int axis = 0; axis < 3; ++axis)
      for (const int64_t step : {1, 2, 3})
        for (const int64_t begin : {0, 1, 4})
          expect_cpu_bits(
              [=](const Tensors& in) {
                return Tensors{slice(in[0], axis, begin, in[0].shape()[axis], step)};
              },
              {values(shape, 1)});
}

// Zeros on both sides, in units of 16 bytes and of elements.
TEST_F(CudaSlice, Pad) {
  for (int axis = 0; axis < 3; ++axis)
    for (const int64_t zeros : {1, 4})
      expect_cpu_bits([=](const Tensors& in) { return Tensors{pad(in[0], axis, zeros, zeros)}; },
                      {values({3, 5, 8}, 1)});
}

TEST_F(CudaSlice, ABoxThatHasNothingOfX) {
  for (const int64_t begin : {-9, 9})
    expect_cpu_bits(
        [=](const Tensors& in) {
          return Tensors{slice(in[0], {.begin = {begin, 1}, .step = {2, 1}, .size = {3, 2}})};
        },
        {values({3, 4}, 1)});
}

TEST_F(CudaSlice, Shortcut) {
  for (const int64_t stride : {1, 2})
    for (const int64_t channels : {8, 11, 16})
      expect_cpu_bits(
          [=](const Tensors& in) {
            return Tensors{shortcut(in[0], {.stride = stride, .channels = channels})};
          },
          {values({2, 5, 6, 8}, 1)});
}

TEST_F(CudaSlice, Scalars) {
  expect_cpu_bits([](const Tensors& in) { return Tensors{slice(in[0], SliceParams{})}; },
                  {values({}, 1)});
}

TEST_F(CudaSlice, Nothing) {
  for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}})
    expect_cpu_bits([](const Tensors& in) { return Tensors{slice(in[0], 0, 0, 0)}; },
                    {values(shape, 1)});
}

TEST_F(CudaSlice, Concat) {
  for (int axis = 0; axis < 3; ++axis)
    for (const int64_t size : {0, 1, 4, 7}) {
      Shape middle{3, 4, 8};
      middle[axis] = size;
      expect_cpu_bits([=](const Tensors& in) { return Tensors{concat(in, axis)}; },
                      {values({3, 4, 8}, 1), values(middle, 2), values({3, 4, 8}, 3)});
    }
}

TEST_F(CudaSlice, ConcatOfAsManyAsThereMayBe) {
  Tensors in;
  for (uint64_t k = 0; k < 32; ++k) in.push_back(values({40, static_cast<int64_t>(k % 3)}, k));
  expect_cpu_bits([](const Tensors& in) { return Tensors{concat(in, 1)}; }, in);
}

// Units of one, four and eight bytes.
TEST_F(CudaSlice, Integers) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 7 * 9; ++i) bytes.push_back(static_cast<uint8_t>(i * 5));
  const Tensor u8 = from_vector<uint8_t>({7, 9}, bytes);
  for (const Tensor& x : {u8, cast(u8, DType::i32), cast(u8, DType::i64)})
    expect_gpu_has_cpu_bits(
        [](const Tensors& in) {
          return Tensors{slice(in[0], 0, 1, 5), slice(in[0], 1, 2, 6), slice(in[0], 1, 1, 8, 3),
                         concat({in[0], in[0]}, 1)};
        },
        {x});
}

}  // namespace
}  // namespace tessera
