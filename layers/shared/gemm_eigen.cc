#include <algorithm>

#include "tessera/layers/shared/gemm_cpu.h"
#include "tessera/layers/shared/gemm_eigen_simd.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 192;               // max. rows of a tile: 192 KB of packed a stay in L2
constexpr int64_t kColumns = 480;            // max. columns of a tile: two of Eigen's blocks of b
constexpr int64_t kMinRows = 48;             // below this, packing b costs as much as using it
constexpr int64_t kEigenTaskWork = 1 << 17;  // multiplications worth waking a thread for
constexpr int64_t kEigenTasks = 16;  // target number of tasks, so that many threads have work

// The tiling, from the shape alone.
struct Tiles {
  int64_t rows, columns, down, across;

  explicit Tiles(const GemmShape& s) {
    const int64_t wanted = std::clamp<int64_t>(s.m * s.n * s.k / kEigenTaskWork, 1, kEigenTasks);
    down = std::max({ceil_div(s.m, kRows), std::min(wanted, s.m / kMinRows), int64_t{1}});
    rows = std::max<int64_t>(1, ceil_div(s.m, down));
    down = ceil_div(s.m, rows);
    const int64_t more = ceil_div(wanted, std::max<int64_t>(1, down));
    across = std::max({ceil_div(s.n, kColumns), std::min(more, s.n / kMinRows), int64_t{1}});
    columns = std::max<int64_t>(1, ceil_div(s.n, across));
    across = ceil_div(s.n, columns);
  }
};

// Returns the size of one thread's blocks for the largest tile.
template <class T>
int64_t packed_elements(const GemmShape& s) {
  const Tiles tiles(s);
  return round_up(EigenBlocks<T>(tiles.rows, tiles.columns, s.k).elements(), 64 / sizeof(T));
}

}  // namespace

size_t eigen_gemm_scratch(const GemmShape& shape, DType dtype, int threads) {
  return visit_float(dtype, [&]<class T>(T) {
    return static_cast<size_t>(packed_elements<T>(shape) * threads) * sizeof(T);
  });
}

template <class T>
void eigen_gemm(ThreadPool& pool, const GemmShape& s, const T* a, const T* b, T* c, void* scratch) {
  const Tiles tiles(s);
  const int64_t stride = packed_elements<T>(s);
  pool.parallel_for_thread(tiles.down * tiles.across, [&](int64_t task, int thread) {
    const int64_t i = task / tiles.across * tiles.rows, j = task % tiles.across * tiles.columns;
    EigenProduct<T> p{};
    p.m = std::min(tiles.rows, s.m - i), p.n = std::min(tiles.columns, s.n - j), p.k = s.k;
    p.transpose_a = s.transpose_a, p.a_stride = s.transpose_a ? s.m : s.k;
    p.a = a + (s.transpose_a ? i : i * s.k);
    p.transpose_b = s.transpose_b, p.b_stride = s.transpose_b ? s.k : s.n;
    p.b = b + (s.transpose_b ? j * s.k : j);
    p.c = c + i * s.n + j, p.c_stride = s.n;
    p.accumulate = s.accumulate;
    p.packed = static_cast<T*>(scratch) + thread * stride;
    eigen_microkernels<T>().product(p);
  });
}

template void eigen_gemm(ThreadPool&, const GemmShape&, const float*, const float*, float*, void*);
template void eigen_gemm(ThreadPool&, const GemmShape&, const double*, const double*, double*,
                         void*);

}  // namespace tessera
