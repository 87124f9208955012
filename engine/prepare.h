// How an op is prepared for inputs on a device: its algorithms, the choice among them, its kernel.
// Eager mode, the compiler and profiles all use these functions instead of the op's own.
//
// An op that does not take 16-bit elements itself (Op::takes_half()) runs in float32: its kernel
// reads copies of its inputs in scratch, and its results are rounded from there, once. So every op
// works with 16 bits, and one that takes them has the same bits and is only faster.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

// Returns the spec with float32 in place of 16 bits.
inline TensorSpec computed(TensorSpec spec) {
  spec.dtype = compute_type(spec.dtype);
  return spec;
}

// Returns op.algorithms(), with the scratch of the copies.
std::vector<Algorithm> algorithms_of(const Op& op, SpecView in, const Target& target);
// Returns the first of the algorithms that target.cpu.kernels allows. Returns the first of all on a
// GPU, or if none is allowed, as for an op with one algorithm.
Algorithm choose_algorithm(const Op& op, SpecView in, const Target& target);
// Returns the kernel that runs `chosen`.
std::unique_ptr<Kernel> prepare_kernel(const Op& op, SpecView in, Context& ctx,
                                       const Algorithm& chosen);

// Issues the conversion of all elements to the dtype of `to`, as cast() does.
void cast_elements(Context& ctx, const Buffer& from, const Buffer& to);

}  // namespace tessera
