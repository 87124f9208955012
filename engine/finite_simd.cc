#include "tessera/engine/finite_simd.h"

namespace tessera {
namespace {

// NaN and infinity have an exponent of all ones, to which one in its last place is added: this
// carries into the sign. As integers, so that the loop is vectorised without reordering floats.
template <class T, class Bits, int kMantissa>
bool are_finite(const T* x, int64_t count) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1), kLast = Bits{1} << kMantissa;
  constexpr Bits kExponent = kSign - kLast;
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    found |= (bits & kExponent) + kLast;
  }
  return (found & kSign) == 0;
}

}  // namespace

namespace TESSERA_ISA {
const FiniteMicrokernels finite_microkernels = {are_finite<float, uint32_t, 23>,
                                                are_finite<double, uint64_t, 52>};
}  // namespace TESSERA_ISA

}  // namespace tessera
