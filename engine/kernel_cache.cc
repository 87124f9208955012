#include "tessera/engine/kernel_cache.h"

#include <algorithm>
#include <functional>

#include "tessera/engine/prepare.h"

namespace tessera {
namespace {

size_t hash_of(const Op& op, const Specs& in) {
  size_t hash = std::hash<std::string_view>()(op.name());
  const auto add = [&](int64_t value) {
    hash = (hash ^ static_cast<size_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  };
  for (const TensorSpec& spec : in) {
    add(static_cast<int64_t>(spec.dtype));
    for (const int64_t size : spec.shape) add(size);
  }
  return hash;
}

}  // namespace

const KernelCache::Entry& KernelCache::find(const OpPtr& op, const Specs& in, Context& ctx) {
  const size_t hash = hash_of(*op, in);
  const Target target = ctx.target();
  std::vector<Entry>& set = sets_[hash % kSets];
  ++now_;
  for (Entry& entry : set)
    if (entry.hash == hash && entry.ctx == &ctx && entry.target == target && entry.in == in &&
        entry.op->is_equivalent(*op)) {
      entry.used = now_;
      return entry;
    }
  const Algorithm chosen = choose_algorithm(*op, in, target);
  Entry made{hash, op, in, &ctx, target, prepare_kernel(*op, in, ctx, chosen), chosen.scratch_bytes,
             now_};
  if (set.size() < kWays) return set.emplace_back(std::move(made));
  const auto oldest = std::min_element(
      set.begin(), set.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  return *oldest = std::move(made);
}

KernelCache& kernel_cache() {
  thread_local KernelCache kernels;
  return kernels;
}

}  // namespace tessera
