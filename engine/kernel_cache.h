// Kernels that eager mode has prepared, kept for calls to come: preparing takes longer than a small
// kernel runs, and where a library is asked for its plans, milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

// For one thread, as a kernel is run by one at a time. Bounded: what was not used for longest goes.
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
    uint64_t used = 0;  // when
  };

  // A kernel for an op that is the same(), for such inputs, in this context and by its settings of
  // now; it is prepared where there is none. Valid until the next call. Throws what prepare()
  // throws.
  const Entry& find(const OpPtr& op, const Specs& in, Context& ctx);

  static constexpr size_t kSets = 128, kWays = 8;  // an entry stands in one set, by its hash

 private:
  std::vector<Entry> sets_[kSets];
  uint64_t now_ = 0;
};

// Of the calling thread.
KernelCache& kernel_cache();

}  // namespace tessera
