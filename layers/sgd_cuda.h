// What SGD does with one element, on every device, and its update on a GPU, which is defined only
// in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/layers/optimizer_params.h"

namespace tessera {

template <class T>
struct SgdRates {
  T rate, decay, momentum;
};

template <class T>
TESSERA_HOST_DEVICE inline void sgd_element(const SgdRates<T>& s, T g, T& p) {
  p -= s.rate * (g + s.decay * p);
}

template <bool kNesterov, class T>
TESSERA_HOST_DEVICE inline void sgd_element(const SgdRates<T>& s, T g, T& p, T& b) {
  const T slope = g + s.decay * p;
  const T buffer = s.momentum * b + slope;
  b = buffer;
  p -= s.rate * (kNesterov ? slope + s.momentum * buffer : buffer);
}

// The tensors of one call, all of one dtype; `momentum` is empty without. Parameters and momentum
// become their next versions. Scratch: finite_scratch() of the gradients.
struct SgdBuffers {
  Buffers parameters, gradients, momentum;
  Buffer lr;
};
void sgd_update_cuda(CudaContext& where, const SgdParams& params, const SgdBuffers& tensors,
                     Buffer scratch);

}  // namespace tessera
