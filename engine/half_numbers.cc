#include "tessera/engine/half_numbers.h"

namespace tessera {
namespace {

// Calls fn with the microkernels of a type of 16 bits.
template <class F>
void visit_half(DType type, F&& fn) {
  const HalfMicrokernels& half = TESSERA_SELECT_MICROKERNELS(half_microkernels);
  type == DType::bf16 ? fn(half.bf16) : fn(half.f16);
}

}  // namespace

void widen_half(DType type, const void* x, int64_t first, int64_t n, float* y) {
  visit_half(type, [&]<class H>(const HalfMicrokernelsOf<H>& half) {
    half.widen(static_cast<const H*>(x) + first, n, y);
  });
}

void narrow_to_half(DType type, const float* x, int64_t n, void* y) {
  visit_half(type, [&]<class H>(const HalfMicrokernelsOf<H>& half) {
    half.narrow(x, n, static_cast<H*>(y));
  });
}

void round_to_half(DType type, const float* x, int64_t n, float* y) {
  visit_half(type, [&](const auto& half) { half.round(x, n, y); });
}

}  // namespace tessera
