// Arithmetic of sizes: a >= 0, b > 0.
#pragma once

#include <cstdint>

namespace tessera {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace tessera
