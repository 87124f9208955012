#include "tessera/engine/prepare.h"

#include <algorithm>
#include <functional>

#include "tessera/runtime/context.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

constexpr int64_t kAlignment = 256;  // enough for every device

Specs all_computed(SpecView specs) {
  Specs wide;
  for (const TensorSpec& spec : specs) wide.push_back(computed(spec));
  return wide;
}

bool any_half(SpecView specs) {
  return std::ranges::any_of(specs, [](const TensorSpec& spec) { return is_half(spec.dtype); });
}

// The places of the float32 copies of inputs and outputs in scratch, in bytes; -1: not copied. The
// op's own scratch follows.
struct Copies {
  Copies(const Op& op, SpecView in_specs, const Specs& out_specs) {
    for (const TensorSpec& spec : in_specs) in.push_back(take(spec));
    for (size_t i = 0; i < out_specs.size(); ++i) {
      const int output = static_cast<int>(i), updated = op.updates(output);
      if (op.view_of(output) >= 0)
        out.push_back(-1);
      else if (updated >= 0)
        out.push_back(in[updated]);  // overwritten in place
      else
        out.push_back(take(out_specs[i]));
    }
  }

  int64_t take(const TensorSpec& spec) {
    if (!is_half(spec.dtype)) return -1;
    const int64_t at = bytes;
    bytes += round_up(static_cast<int64_t>(computed(spec).bytes()), kAlignment);
    return at;
  }

  std::vector<int64_t> in, out;
  int64_t bytes = 0;
};

// The copies, or nothing if the op takes its inputs and outputs as they are.
std::optional<Copies> copies_of(const Op& op, SpecView in, DeviceKind kind) {
  if (op.takes_half(kind, in)) return std::nullopt;
  const Specs out = op.infer(in);
  if (!any_half(in) && !any_half(out)) return std::nullopt;
  return Copies(op, in, out);
}

class Float32Kernel final : public Kernel {
 public:
  Float32Kernel(std::unique_ptr<Kernel> kernel, Copies copies)
      : kernel_(std::move(kernel)),
        copies_(std::move(copies)),
        in_(copies_.in.size()),
        out_(copies_.out.size()) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    char* base = scratch.as<char>();
    const auto copy = [&](const Buffer& of, int64_t at) {
      return at < 0 ? of : Buffer{base + at, computed(of.spec)};
    };
    for (size_t k = 0; k < in.size(); ++k) {
      in_[k] = copy(in[k], copies_.in[k]);
      if (copies_.in[k] >= 0) cast_elements(ctx, in[k], in_[k]);
    }
    for (size_t i = 0; i < out.size(); ++i) out_[i] = copy(out[i], copies_.out[i]);
    Buffer own = scratch;
    own.data = base + copies_.bytes;
    own.spec.shape[0] -= copies_.bytes;
    kernel_->run(ctx, in_, out_, own);
    for (size_t i = 0; i < out.size(); ++i)
      if (copies_.out[i] >= 0) cast_elements(ctx, out_[i], out[i]);
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const Copies copies_;
  std::vector<Buffer> in_, out_;
};

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

std::vector<Algorithm> algorithms_of(const Op& op, SpecView in, const Target& target) {
  const std::optional<Copies> copies = copies_of(op, in, target.device.kind);
  if (!copies) return op.algorithms(in, target);
  std::vector<Algorithm> all = op.algorithms(all_computed(in), target);
  for (Algorithm& one : all) one.scratch_bytes += static_cast<size_t>(copies->bytes);
  return all;
}

Algorithm choose_algorithm(const Op& op, SpecView in, const Target& target) {
  const std::vector<Algorithm> all = algorithms_of(op, in, target);
  if (!target.device.is_cpu()) return all.at(0);
  for (const Algorithm& algorithm : all)
    if (target.cpu.kernels == CpuKernels::automatic ||
        (algorithm.name == "eigen") == (target.cpu.kernels == CpuKernels::eigen))
      return algorithm;
  return all.at(0);
}

std::unique_ptr<Kernel> prepare_kernel(const Op& op, SpecView in, Context& ctx,
                                       const Algorithm& chosen) {
  std::optional<Copies> copies = copies_of(op, in, ctx.device().kind);
  if (!copies) return op.prepare(in, ctx, chosen);
  const Algorithm own{chosen.name, chosen.scratch_bytes - static_cast<size_t>(copies->bytes)};
  return std::make_unique<Float32Kernel>(op.prepare(all_computed(in), ctx, own),
                                         *std::move(copies));
}

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
  return *std::ranges::min_element(set, {}, &Entry::used) = std::move(made);
}

KernelCache& kernel_cache() {
  thread_local KernelCache kernels;
  return kernels;
}

}  // namespace tessera
