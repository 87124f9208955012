// Which elements dropout keeps, on every device, and its kernel for a GPU, which is defined only in
// builds with CUDA.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/runtime/random.h"

namespace tessera {

struct DropoutParams {
  double p;
  uint64_t key;
  bool operator==(const DropoutParams&) const = default;
};

// What becomes of an element, given its 32 random bits: word i % 4 of philox(key, dropout_sample(),
// i / 4) for element i of its sample.
template <class T>
struct DropoutRule {
  uint64_t key, threshold;
  T scale;
  explicit DropoutRule(const DropoutParams& params)
      : key(params.key),
        threshold(static_cast<uint64_t>(params.p * 0x1p32)),
        scale(static_cast<T>(1 / (1 - params.p))) {}
  TESSERA_HOST_DEVICE T operator()(uint32_t bits, T x) const {
    return bits >= threshold ? x * scale : T(0);
  }
};

TESSERA_HOST_DEVICE inline uint64_t dropout_sample(int64_t step, int64_t sample) {
  return static_cast<uint64_t>(step) << 32 ^ static_cast<uint64_t>(sample);
}

void dropout_cuda(CudaContext& where, const DropoutParams& params, const Buffer& x,
                  const Buffer& position, const Buffer& y);

}  // namespace tessera
