// Eigen's templates have external linkage, and the linker keeps one copy of each. Therefore each
// instruction set has its own Eigen in its own namespace: AVX-512 code must reach neither a
// processor without AVX-512 nor a program that uses Eigen itself. tests/tools/eigen_symbols.py
// checks that the object files export nothing else.
#define TESSERA_JOIN(a, b) a##b
#define TESSERA_NAMED(prefix, name) TESSERA_JOIN(prefix, name)
#define Eigen TESSERA_NAMED(tessera_eigen_, TESSERA_ISA)

// The thread pool splits the work. Eigen gets planned scratch; if it allocates from the heap
// anyway, the program aborts, in release builds too. The other assertions here cost nothing.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_MALLOC
#define EIGEN_NO_IO
#define eigen_assert(condition)         \
  do {                                  \
    if (!(condition)) __builtin_trap(); \
  } while (false)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // for g++ 12's own AVX-512 intrinsics
#endif
#include "tessera/layers/shared/gemm_eigen_simd.h"

#include <Eigen/Core>

namespace tessera {
namespace {

// Eigen's expressions (c.noalias() += a * b) choose blocks by the caches they detect and allocate
// them on the heap, or on the stack if small. The documented alternative, fixed maximum sizes, puts
// the largest blocks on the stack. The internal product used here takes both from the caller.
template <class T>
class PlannedBlocking final : public Eigen::internal::level3_blocking<T, T> {
 public:
  // Eigen computes a row-major c as its transpose, so its "lhs" is our b.
  PlannedBlocking(const EigenBlocks<T>& blocks, T* packed) {
    this->m_mc = blocks.columns, this->m_nc = blocks.rows, this->m_kc = blocks.depth;
    this->m_blockB = packed, this->m_blockA = packed + blocks.a_elements();
  }
};

template <int kOrderA, int kOrderB, class T>
void multiply(const EigenProduct<T>& p) {
  using Product =
      Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, kOrderA, false, T, kOrderB,
                                                     false, Eigen::RowMajor, 1>;
  PlannedBlocking<T> blocking(EigenBlocks<T>(p.m, p.n, p.k), p.packed);
  Product::run(p.m, p.n, p.k, p.a, p.a_stride, p.b, p.b_stride, p.c, 1, p.c_stride, T(1), blocking);
}

template <class T>
void product(const EigenProduct<T>& p) {
  if (!p.accumulate)
    for (int64_t i = 0; i < p.m; ++i) __builtin_memset(p.c + i * p.c_stride, 0, p.n * sizeof(T));
  if (p.m == 0 || p.n == 0 || p.k == 0) return;
  constexpr int kRow = Eigen::RowMajor, kColumn = Eigen::ColMajor;
  if (p.transpose_a)
    p.transpose_b ? multiply<kColumn, kColumn>(p) : multiply<kColumn, kRow>(p);
  else
    p.transpose_b ? multiply<kRow, kColumn>(p) : multiply<kRow, kRow>(p);
}

template <class T>
void multiply_add(const EigenMultiplyAdd<T>& p) {
  using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
  const T *a = p.a, *b = p.b;
  T* c = p.c;
  for (int64_t i = 0; i < p.points; ++i, a += p.a_step, b += p.b_step, c += p.c_step)
    Eigen::Map<Array>(c, p.channels) +=
        Eigen::Map<const Array>(a, p.channels) * Eigen::Map<const Array>(b, p.channels);
}

}  // namespace

namespace TESSERA_ISA {
extern const EigenMicrokernels eigen_microkernels = {{product<float>, multiply_add<float>},
                                                     {product<double>, multiply_add<double>}};
}

}  // namespace tessera
