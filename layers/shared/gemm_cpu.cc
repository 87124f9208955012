#include "tessera/layers/shared/gemm_cpu.h"

#include <algorithm>
#include <cstring>

#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

constexpr int64_t kTaskRows = 128;         // max. rows of A and C in a task
constexpr int64_t kChunkBytes = 1280;      // summed index at once: a panel of 16 floats fills 20 KB
constexpr int64_t kPackedBytes = 4 << 20;  // packed part of B
constexpr int64_t kPackedRows = 16;        // rows of B packed at once into kPackedPanels panels,
constexpr int64_t kPackedPanels = 8;       // so that more than a line of each is read
constexpr int64_t kFewRows = 8;            // packing B would cost as much as using it
constexpr int64_t kProductTaskWork = 1 << 17;  // multiplications worth waking a thread for
constexpr int64_t kMinProductTasks = 16;
constexpr int64_t kProductsAtOnce = 16;  // take as long as one element of a simple loop

// The tiling, from the shape alone: C is cut into tasks of `rows` by `columns`, k into chunks.
struct Plan {
  bool outer;              // k == 1: scaled rows of B
  bool dots;               // few rows, B transposed: plain dot products
  bool packed;             // B is packed into panels, else read in place
  int64_t chunk;           // elements of k
  int64_t packed_columns;  // columns packed at once
  int64_t rows, columns;   // size of a task
  int64_t panel;           // two vectors
};

template <class T>
Plan make_plan(const GemmShape& s) {
  Plan plan{};
  plan.panel = 2 * microkernels<T>().lanes;
  constexpr int64_t kStep = kDepthStep<T>;
  const int64_t size = sizeof(T), width = std::max<int64_t>(1, s.n);
  plan.outer = s.k == 1 && kStep == 1;
  plan.dots = s.m <= kFewRows && s.transpose_b && !s.transpose_a;
  plan.packed = !plan.dots && (s.m > kFewRows || s.transpose_b || kStep > 1);
  const int64_t chunks = std::max<int64_t>(1, ceil_div(s.k * size, kChunkBytes));
  plan.chunk = round_up(std::max<int64_t>(1, ceil_div(s.k, chunks)), kStep);
  const int64_t most = std::max(plan.panel, kPackedBytes / (plan.chunk * size));
  plan.packed_columns =
      round_up(plan.packed ? ceil_div(width, ceil_div(width, most)) : width, plan.panel);

  // Tasks have many rows, as each reads its panels of B once; the columns are cut first.
  const int64_t wanted =
      std::clamp<int64_t>(s.m * s.n * s.k / kProductTaskWork, 1, kMinProductTasks);
  const int64_t least = std::max<int64_t>(1, ceil_div(s.m, kTaskRows)),
                across = std::min(ceil_div(wanted, least), plan.packed_columns / plan.panel),
                down = std::max(least, ceil_div(wanted, across));
  plan.rows = std::clamp<int64_t>(round_up(ceil_div(s.m, down), 24), 1, kTaskRows);
  plan.columns = round_up(ceil_div(plan.packed_columns, across), plan.panel);
  return plan;
}

// Pairs of a transposed A are packed into micro-panels.
template <class T>
int64_t rows_in_panels(const Plan& plan) {
  return kDepthStep<T> > 1 ? round_up(plan.rows, kMicroPanelRows) : plan.rows;
}

template <class T>
struct ProductBuffers {
  T* b;  // packed panels [k][panel] of a chunk of B
  T* a;  // per thread: rows of a chunk of a transposed A, or micro-panels
  size_t size;
};

template <class T>
ProductBuffers<T> lay_out(const GemmShape& s, const Plan& plan, int threads, void* scratch) {
  ScratchLayout layout(scratch);
  ProductBuffers<T> buffers{};
  const int64_t columns = plan.packed ? plan.packed_columns : plan.panel;
  if (!plan.outer && !plan.dots) buffers.b = layout.take<T>(columns * plan.chunk);
  if (!plan.outer && s.transpose_a)
    buffers.a = layout.take<T>(rows_in_panels<T>(plan) * plan.chunk * threads);
  buffers.size = layout.size();
  return buffers;
}

// Packs columns [j, j + panel) of op(B) for k in [k, k + depth).
template <class T>
void pack_b(const GemmShape& s, int64_t panel, const T* b, int64_t j, int64_t k, int64_t depth,
            T* to) {
  const int64_t columns = std::min(panel, s.n - j);
  if (s.transpose_b) {
    microkernels<T>().pack_transposed(b + j * s.k + k, s.k, depth, columns, panel, to);
    return;
  }
  constexpr int64_t kStep = kDepthStep<T>;
  if (columns < panel) std::memset(to, 0, round_up(depth, kStep) * panel * sizeof(T));
  microkernels<T>().copy_points(b + k * s.n + j, s.n, depth, columns, to, panel * kStep);
}

struct ProductPart {
  int64_t row, rows, column, columns, k, depth;
};

template <class T>
const T* panel_of(const ProductBuffers<T>& buffers, const ProductPart& part, int64_t column) {
  return buffers.b + column * round_up(part.depth, kDepthStep<T>);
}

// Computes one task of pairs with A transposed, so that its pairs are not next to each other.
template <class T>
void multiply_columns(const GemmShape& s, const Plan& plan, const ProductPart& part,
                      int64_t first_packed, const T* a, const ProductBuffers<T>& buffers,
                      T* a_buffer, Computed<T>* c) {
  constexpr int64_t kStep = kDepthStep<T>, kWide = kWideLanes<Computed<T>>;
  microkernels<T>().pack_micro_panels(a + part.k * s.m + part.row, s.m, part.depth, part.rows,
                                      a_buffer);
  OuterProduct<T> product{};
  product.a = a_buffer, product.a_point = kMicroPanelRows * kStep;
  product.a_panel = kMicroPanelRows * round_up(part.depth, kStep), product.rows = part.rows;
  product.b_point = plan.panel * kStep, product.lines = 1;
  product.points = ceil_div(part.depth, kStep);
  product.c_stride = s.n, product.accumulate = s.accumulate || part.k > 0;
  for (int64_t j = part.column; j < part.column + part.columns; j += plan.panel) {
    product.columns = std::min(plan.panel, s.n - j);
    product.vectors = static_cast<int>(ceil_div(product.columns, kWide));
    product.b = panel_of(buffers, part, j - first_packed), product.c = c + part.row * s.n + j;
    microkernels<T>().outer(product);
  }
}

// Computes one task: a block of C over one chunk.
template <class T>
void multiply(const GemmShape& s, const Plan& plan, const ProductPart& part, int64_t first_packed,
              const T* a, const T* b, const ProductBuffers<T>& buffers, T* a_buffer,
              Computed<T>* c) {
  const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
  if constexpr (kDepthStep < T >> 1)
    if (s.transpose_a)
      return multiply_columns(s, plan, part, first_packed, a, buffers, a_buffer, c);
  int64_t a_rows[kTaskRows], c_rows[kTaskRows];
  const Segment segment{0, part.depth, 0};
  ImplicitGemmProduct<T> product{};
  product.a = a + part.row * s.k + part.k;
  int64_t stride = s.k;
  if (s.transpose_a) {
    microkernel.pack_transposed(a + part.k * s.m + part.row, s.m, part.rows, part.depth, part.depth,
                                a_buffer);
    product.a = a_buffer, stride = part.depth;
  }
  for (int64_t i = 0; i < part.rows; ++i) a_rows[i] = i * stride, c_rows[i] = (part.row + i) * s.n;
  product.a_rows = a_rows, product.c_rows = c_rows, product.rows = part.rows;
  product.segments = &segment, product.segment_count = 1;
  product.accumulate = s.accumulate || part.k > 0;
  const int64_t end = std::min(part.column + part.columns, s.n);
  for (int64_t j = part.column, panels; j < end; j += panels * plan.panel) {
    panels = plan.packed && microkernel.gathers_panels && j + 2 * plan.panel <= end ? 2 : 1;
    product.columns = std::min(panels * plan.panel, s.n - j);
    product.vectors = panels == 2 ? 4 : product.columns > microkernel.lanes ? 2 : 1;
    if (plan.packed) {
      product.b = panel_of(buffers, part, j - first_packed);
      product.b_stride = plan.panel * kDepthStep<T>;
      product.b_panel = plan.panel * round_up(part.depth, kDepthStep<T>);
    } else if (product.columns == product.vectors * microkernel.lanes) {
      product.b = b + part.k * s.n + j, product.b_stride = s.n;
    } else {  // full vectors would read beyond B: this last panel was packed
      product.b = buffers.b, product.b_stride = plan.panel;
    }
    product.c = c + j;
    microkernel.gather(product);
  }
}

template <class T>
void run_dots(ThreadPool& pool, const GemmShape& s, const Plan& plan, const T* a, const T* b,
              Computed<T>* c) {
  pool.parallel_for(ceil_div(s.n, plan.columns), [&](int64_t task) {
    const int64_t j = task * plan.columns, columns = std::min(plan.columns, s.n - j);
    microkernels<T>().dots({a, s.k, s.m, b + j * s.k, s.k, columns, s.k, c + j, s.n, s.accumulate});
  });
}

// Transposition does not matter: op(A) is a column and op(B) a row.
template <class T>
void run_outer(ThreadPool& pool, const GemmShape& s, const Plan& plan, const T* a, const T* b,
               T* c) {
  pool.parallel_for(ceil_div(s.m, plan.rows), s.m * s.n / kProductsAtOnce, [&](int64_t task) {
    const int64_t i = task * plan.rows, rows = std::min(plan.rows, s.m - i);
    microkernels<T>().scaled_rows(a + i, rows, b, s.n, c + i * s.n, s.accumulate);
  });
}

}  // namespace

size_t gemm_scratch(const GemmShape& shape, DType dtype, int threads) {
  return visit_types(ProductTypes(), dtype, [&]<class T>(T) {
    return lay_out<T>(shape, make_plan<T>(shape), threads, nullptr).size;
  });
}

template <class T>
void gemm(ThreadPool& pool, const GemmShape& s, const T* a, const T* b, Computed<T>* c,
          void* scratch) {
  if (s.m == 0 || s.n == 0) return;
  const Plan plan = make_plan<T>(s);
  if constexpr (kDepthStep<T> == 1)
    if (plan.outer) return run_outer(pool, s, plan, a, b, c);
  if (plan.dots) return run_dots(pool, s, plan, a, b, c);
  if (s.k == 0) {
    if (!s.accumulate) std::memset(c, 0, s.m * s.n * sizeof(Computed<T>));
    return;
  }
  const ProductBuffers<T> buffers = lay_out<T>(s, plan, pool.size(), scratch);
  for (int64_t first = 0; first < s.n; first += plan.packed_columns) {
    const int64_t last = std::min(s.n, first + plan.packed_columns);
    for (int64_t k = 0; k < s.k; k += plan.chunk) {
      const int64_t depth = std::min(plan.chunk, s.k - k);
      const int64_t panels = ceil_div(last - first, plan.panel);
      const int64_t per_task =
          std::max(s.transpose_b ? 1 : kPackedPanels, (1 << 14) / (depth * plan.panel));
      const int64_t rows = s.transpose_b ? depth : kPackedRows;
      if (plan.packed) {
        pool.parallel_for(ceil_div(panels, per_task), [&](int64_t task) {
          for (int64_t l = 0; l < depth; l += rows)
            for (int64_t p = task * per_task; p < std::min(panels, (task + 1) * per_task); ++p)
              pack_b(s, plan.panel, b, first + p * plan.panel, k + l, std::min(rows, depth - l),
                     buffers.b + (p * round_up(depth, kDepthStep<T>) + l) * plan.panel);
        });
      } else if (s.n % microkernels<T>().lanes) {
        pack_b(s, plan.panel, b, s.n / plan.panel * plan.panel, k, depth, buffers.b);
      }
      const int64_t across = ceil_div(last - first, plan.columns);
      const int64_t work = s.m * (last - first) * depth / kProductsAtOnce;
      const int64_t parts = ceil_div(s.m, plan.rows) * across;
      pool.parallel_for_thread(parts, work, [&](int64_t task, int thread) {
        ProductPart part{};
        part.row = task / across * plan.rows, part.rows = std::min(plan.rows, s.m - part.row);
        part.column = first + task % across * plan.columns;
        part.columns = std::min(plan.columns, last - part.column);
        part.k = k, part.depth = depth;
        multiply(s, plan, part, first, a, b, buffers,
                 buffers.a + thread * rows_in_panels<T>(plan) * plan.chunk, c);
      });
    }
  }
}

template void gemm(ThreadPool&, const GemmShape&, const float*, const float*, float*, void*);
template void gemm(ThreadPool&, const GemmShape&, const double*, const double*, double*, void*);
template void gemm(ThreadPool&, const GemmShape&, const bfloat16*, const bfloat16*, float*, void*);

}  // namespace tessera
