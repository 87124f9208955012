#include "tessera/engine/prepare.h"

#include <algorithm>

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
        out.push_back(in[static_cast<size_t>(updated)]);  // overwritten in place
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

}  // namespace tessera
