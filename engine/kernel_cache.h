// KernelCache: kernels prepared by eager mode, kept for later calls. Preparing takes longer than
// running a small kernel; looking up a library's plan takes milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

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

}  // namespace tessera
