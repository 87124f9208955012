// Loops over rows in parallel. Which rows share a task depends on the sizes alone.
#pragma once

#include <algorithm>

#include "tessera/runtime/integers.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// Calls fn(first, end) for ranges of rows of `length` elements. A task has about `task` elements,
// and at least one row.
template <class F>
void for_row_ranges(ThreadPool& pool, int64_t rows, int64_t length, int64_t task, F&& fn) {
  const int64_t step = std::max<int64_t>(1, task / std::max<int64_t>(1, length));
  pool.parallel_for(ceil_div(rows, step),
                    [&](int64_t i) { fn(i * step, std::min(rows, (i + 1) * step)); });
}

// Calls fn(row) for each row.
template <class F>
void for_rows(ThreadPool& pool, int64_t rows, int64_t length, int64_t task, F&& fn) {
  for_row_ranges(pool, rows, length, task, [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) fn(row);
  });
}

}  // namespace tessera
