// The small kernels of batch norm, over raw memory; all vectors are [c].
#pragma once

#include "tessera/layers/shared/channel_blocks.h"

namespace tessera {

// Merges the moments [blocks, 2, c] of blocks in the order of their index, with the formula of
// Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample
// variances", 1979). variance is the unbiased one.
template <class T>
void batch_norm_finalise(ThreadPool& pool, ChannelBlocks blocks, int64_t c, double eps,
                         const T* moments, T* mean, T* inverse_deviation, T* variance);

// From the sums of dy and dy xhat over blocks: dgamma, dbeta, and per channel what the gradient of
// x needs, dx = (dy - (x - mean) slope - offset) scale.
template <class T>
struct BatchNormGradOut {
  T *dgamma, *dbeta, *scale, *slope, *offset;
};
template <class T>
void batch_norm_grad_finalise(ThreadPool& pool, int64_t blocks, int64_t rows, int64_t c,
                              const T* sums, const T* gamma, const T* inverse_deviation,
                              const BatchNormGradOut<T>& out);

}  // namespace tessera
