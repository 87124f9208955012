#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/strided_cuda.h"

namespace tessera {
namespace {

// Packs of 16 bytes, at most four elements: there are several inputs, and integer divisions take
// many instructions.
template <class T>
inline constexpr int kElementPack = kPack<T> < 4 ? kPack<T> : 4;

// y = evaluate(op, a, b), where Op is IntegerOp or ComparisonDirection.
template <class Op, class T, class Y>
struct Binary {
  static constexpr int kInputs = 2, kNeighbours = kElementPack<T>;
  Op op;
  const T *a, *b;
  Y* y;
  template <int N>
  __device__ void make(int64_t i, const int64_t (&at)[2], const int64_t (&step)[2]) const {
    const Pack<T, N> left = load_line<N>(a + at[0], step[0]);
    const Pack<T, N> right = load_line<N>(b + at[1], step[1]);
    Pack<Y, N> values;
    for (int k = 0; k < N; ++k) values[k] = static_cast<Y>(evaluate(op, left[k], right[k]));
    store_pack(y + i, values);
  }
};

template <class T>
struct Choice {
  static constexpr int kInputs = 3, kNeighbours = sizeof(T) == 2 ? kPack<T> : kElementPack<T>;
  const uint8_t* condition;
  const T *a, *b;
  T* y;
  template <int N>
  __device__ void make(int64_t i, const int64_t (&at)[3], const int64_t (&step)[3]) const {
    const Pack<uint8_t, N> takes_a = load_line<N>(condition + at[0], step[0]);
    const Pack<T, N> left = load_line<N>(a + at[1], step[1]);
    const Pack<T, N> right = load_line<N>(b + at[2], step[2]);
    Pack<T, N> values;
    for (int k = 0; k < N; ++k) values[k] = takes_a[k] != 0 ? left[k] : right[k];
    store_pack(y + i, values);
  }
};

template <class Y, class T, class Op>
void launch_binary(CudaContext& ctx, const char* name, Op op, Buffers in, const Buffer& out) {
  const Binary<Op, T, Y> binary{op, in[0].as<const T>(), in[1].as<const T>(), out.as<Y>()};
  launch_strided(ctx, name, binary, out.spec.shape, broadcast_strides<2>(in, out.spec.shape));
}

}  // namespace

void integer_arithmetic_cuda(CudaContext& ctx, IntegerOp op, Buffers in, const Buffer& out) {
  visit_integer(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_binary<T, T>(ctx, "integer_arithmetic", op, in, out);
  });
}

void comparison_cuda(CudaContext& ctx, ComparisonDirection relation, Buffers in,
                     const Buffer& out) {
  visit_dtype(in[0].spec.dtype, [&](auto zero) {
    launch_binary<uint8_t, decltype(zero)>(ctx, "comparison", relation, in, out);
  });
}

void where_cuda(CudaContext& ctx, Buffers in, const Buffer& out) {
  visit_bits(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Choice<T> choice{in[0].as<const uint8_t>(), in[1].as<const T>(), in[2].as<const T>(),
                           out.as<T>()};
    launch_strided(ctx, "where", choice, out.spec.shape, broadcast_strides<3>(in, out.spec.shape));
  });
}

}  // namespace tessera
