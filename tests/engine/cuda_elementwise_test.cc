// Integer arithmetic, comparisons and where() on a GPU give the bits of the CPU.
#include "tessera/engine/pointwise.h"
#include "tessera/tests/engine/device_testing.h"

namespace tessera {
namespace {

using CudaElementwise = OnGpu;
constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::u8, DType::i32, DType::i64};
constexpr DType kIntegers[] = {DType::u8, DType::i32, DType::i64};

struct Pair {
  Shape a, b;
};
// Equal shapes, repetition along each axis, different ranks, empty; lines of 4 and not of 4.
const Pair kPairs[] = {
    {{}, {}},       {{1}, {1}},       {{4099}, {4099}},    {{4099}, {}},
    {{37, 8}, {8}}, {{8}, {37, 8}},   {{5, 1, 7}, {3, 1}}, {{2, 1, 3, 1, 4}, {5, 1, 2, 1}},
    {{0, 3}, {3}},  {{7, 12}, {7, 1}}};

// Returns few different numbers, of both signs if the dtype is signed, so that pairs are often
// equal and divisors often 0.
Tensor few_numbers(const Shape& shape, DType dtype, uint64_t seed) {
  const double low = dtype == DType::u8 ? 0 : -4;
  return cast(cast(random_uniform(shape, seed, low, 5, DType::f64), DType::i32), dtype);
}

// Compares in the dtypes of the inputs.
void expect_bits(const DeviceFunction& f, const Tensors& inputs, const std::string& what) {
  const DType dtype = inputs.back().dtype() == DType::f32 ? DType::f32 : DType::f64;
  for (const Placed placed : {Placed::aligned, Placed::off_by_one})
    EXPECT_TRUE(gpu_has_cpu_bits(f, inputs, dtype, placed))
        << what << (placed == Placed::aligned ? "" : ", off by one");
}

Tensors all_of_integers(const Tensor& a, const Tensor& b) {
  return {a + b, a - b, a * b, floor_divide(a, b), remainder(a, b), maximum(a, b), minimum(a, b)};
}

Tensors all_comparisons(const Tensor& a, const Tensor& b) {
  return {equal(a, b),      not_equal(a, b), less(a, b),
          less_equal(a, b), greater(a, b),   greater_equal(a, b)};
}

TEST_F(CudaElementwise, IntegerArithmeticWithBroadcasting) {
  for (const DType dtype : kIntegers)
    for (const auto& [a, b] : kPairs)
      expect_bits([](const Tensors& in) { return all_of_integers(in[0], in[1]); },
                  {few_numbers(a, dtype, 1), few_numbers(b, dtype, 2)},
                  std::string(name_of(dtype)) + " " + a.text() + " " + b.text());
}

// Tests every pair of the numbers that wrap around or have no quotient.
template <class T>
void expect_extremes() {
  constexpr T kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  const std::vector<T> values{kMin, kMin + 1, static_cast<T>(-1), 0,        1,
                              2,    7,        kMax / 2,           kMax - 1, kMax};
  const auto count = std::ssize(values);
  const Tensor x = from_vector<T>({count}, values);
  expect_bits(
      [&](const Tensors& in) {
        Tensors results = all_of_integers(in[0], in[1]);
        for (const Tensor& y : all_comparisons(in[0], in[1])) results.push_back(y);
        return results;
      },
      {reshape(x, {count, 1}), x}, std::string(name_of(dtype_of<T>)));
}

TEST_F(CudaElementwise, ExtremesOfIntegers) {
  expect_extremes<uint8_t>();
  expect_extremes<int32_t>();
  expect_extremes<int64_t>();
}

TEST_F(CudaElementwise, ComparisonsOfEveryDType) {
  for (const DType dtype : kDTypes)
    for (const auto& [a, b] : kPairs)
      expect_bits([](const Tensors& in) { return all_comparisons(in[0], in[1]); },
                  {few_numbers(a, dtype, 3), few_numbers(b, dtype, 4)},
                  std::string(name_of(dtype)) + " " + a.text() + " " + b.text());
}

const std::vector<float> kSpecial{0.f,
                                  -0.f,
                                  1.f,
                                  std::numeric_limits<float>::quiet_NaN(),
                                  1e-40f,
                                  std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity()};

TEST_F(CudaElementwise, ComparisonsOfWhatIsNoNumber) {
  const Tensor x = from_vector<float>({7}, kSpecial);
  expect_gpu_has_cpu_bits([](const Tensors& in) { return all_comparisons(in[0], in[1]); },
                          {reshape(x, {7, 1}), x});
}

TEST_F(CudaElementwise, WhereWithBroadcasting) {
  const Shape conditions[] = {{},      {1}, {4099},          {4099}, {37, 1},
                              {37, 8}, {7}, {2, 5, 3, 2, 4}, {3},    {7, 12}};
  for (const DType dtype : kDTypes)
    for (size_t i = 0; i < std::size(kPairs); ++i) {
      const auto& [a, b] = kPairs[i];
      expect_bits([](const Tensors& in) { return Tensors{where(in[0], in[1], in[2])}; },
                  {few_numbers(conditions[i], DType::u8, 5), few_numbers(a, dtype, 6),
                   few_numbers(b, dtype, 7)},
                  std::string(name_of(dtype)) + " " + a.text() + " " + b.text());
    }
}

TEST_F(CudaElementwise, WhereKeepsEveryBit) {
  const Tensor x = from_vector<float>({7}, kSpecial);
  const Tensor condition = from_vector<uint8_t>({3, 1}, {0, 1, 255});
  expect_gpu_has_cpu_bits([](const Tensors& in) { return Tensors{where(in[0], in[1], in[2])}; },
                          {condition, x, full({}, -0.0)});
  const Tensor other = from_vector<float>({7}, {kSpecial.rbegin(), kSpecial.rend()});
  expect_gpu_has_cpu_bits([](const Tensors& in) { return Tensors{where(in[0], in[1], in[2])}; },
                          {condition, x, other});
}

TEST_F(CudaElementwise, GradientsOfWhere) {
  const Tensor condition = few_numbers({6, 5}, DType::u8, 8);
  const auto chosen = [&](const Tensors& in) {
    return Tensors{where(less(in[0], in[1]), in[0], in[1])};
  };
  expect_gpu_matches(with_gradients(chosen, 2),
                     {random_normal({6, 5}, 9), random_normal({5}, 10), random_normal({6, 5}, 11)});
}

}  // namespace
}  // namespace tessera
