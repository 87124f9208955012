// How an op is prepared for inputs on a device: its algorithms, the choice among them, its kernel.
// Eager mode, the compiler and profiles all use these functions instead of the op's own.
//
// An op that does not take 16-bit elements itself (Op::takes_half()) runs in float32: its kernel
// reads copies of its inputs in scratch, and its results are rounded from there, once. So every op
// works with 16 bits, and one that takes them has the same bits and is only faster.
//
// Eager mode keeps prepared kernels for later calls: preparing takes longer than running a small
// kernel, and looking up a library's plan takes milliseconds.
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

// A set-associative cache of bounded size; evicts the least recently used kernel. Not thread-safe.
class KernelCache {
 public:
  struct Entry {
    size_t hash = 0;
    OpPtr op;  // which the kernel may refer to
    Specs in;
    const Context* ctx = nullptr;
    Target target;
    std::shared_ptr<Kernel> kernel;
    size_t scratch_bytes = 0;
    uint64_t used = 0;  // the time of the last use
  };

  // Returns the cached kernel for an equivalent op with the same input specs, context and settings;
  // prepares one if there is none. The reference is valid until the next call. Throws what
  // prepare() throws.
  const Entry& find(const OpPtr& op, const Specs& in, Context& ctx);

  static constexpr size_t kSets = 128, kWays = 8;  // the hash of an entry selects its set

 private:
  std::vector<Entry> sets_[kSets];
  uint64_t now_ = 0;
};

// Returns the cache of the calling thread.
KernelCache& kernel_cache();

// Issues the conversion of all elements to the dtype of `to`, as cast() does.
void cast_elements(Context& ctx, const Buffer& from, const Buffer& to);

}  // namespace tessera
