// Op is the interface that every operation implements; Kernel is what runs one.
//
// An op is a small immutable object that holds its attributes. Eager execution, the autograd tape
// and graphs share the same object. Most ops implement name(), is_equivalent(), infer(), a run()
// per device and grad(), and inherit the rest. Passes read the facts below and never compare op
// names. layers/ops/scale_channels.cc is a complete op.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/engine/scalar_program.h"
#include "tessera/engine/tensor.h"
#include "tessera/runtime/context.h"

namespace tessera {

// A tensor as a kernel sees it. Does not own the bytes.
struct Buffer {
  void* data = nullptr;
  TensorSpec spec;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t elements() const { return spec.shape.elements(); }
};
using Buffers = std::span<const Buffer>;

// An op prepared for fixed shapes on one device. It may hold packed layouts or a library's plan.
// Not thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Issues the work on the stream of `ctx`. Does not allocate, synchronize or branch on tensor
  // values. scratch.data is aligned to alignment_of(device) and has at least
  // Algorithm::scratch_bytes.
  virtual void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) = 0;
};

// One of several algorithms for an op. Names are unique within an op; ops that share code share
// names. "eigen" uses Eigen; all other algorithms of matrix products ("native") and convolutions on
// the CPU (layers/conv2d/cpu/convolution.h) are written by hand for AVX2 and AVX-512.
struct Algorithm {
  std::string_view name = "default";
  size_t scratch_bytes = 0;
};

// The arguments of grad(). inputs[i] and outputs[i] are defined only if saved() names them.
// grad_outputs[i] is the gradient of output i, undefined if the loss does not depend on it.
struct GradArgs {
  std::span<const Tensor> inputs, outputs, grad_outputs;
  SpecView input_specs, output_specs;
  std::vector<bool> needed;  // for each input: whether its gradient is needed
  bool needs(int input) const { return needed[static_cast<size_t>(input)]; }
};

// The tensors that grad() reads, which are kept until then. Bit i means input or output i.
struct Saved {
  uint32_t inputs = 0, outputs = 0;
};

// The work of one run of an op: a lower bound for profiles, counted from shapes alone, which never
// decides between algorithms. A multiplication and an addition are two flops, fused or not; an
// exponential, a root or another function is one.
struct Cost {
  int64_t flops = 0, bytes_read = 0, bytes_written = 0;
  bool operator==(const Cost&) const = default;
};

class Op;
using OpPtr = std::shared_ptr<const Op>;

// The result of fusing another op, or a scalar program, into an op. inputs[i] says where input i of
// the fused op comes from: k >= 0 is input k of the op that fuses, -1 - k is input k of the op that
// is fused into it. A null `op`, if allowed, means that the output equals the input of inputs[0].
struct FusedOp {
  OpPtr op;
  std::vector<int> inputs;
};

// An op that reads one input in a prepacked layout, which `pack` makes. Meant for inputs that are
// the same in every run (weights).
struct PackedInput {
  int input;
  OpPtr pack, op;  // pack: one input, one output
};

// An attribute of an op that its shapes do not show, for export to ONNX: "stride" {2, 2}.
// Attributes of images have rows and columns; axes are one number each; a range of axes is {first,
// end}.
struct OpAttribute {
  std::string_view name;
  std::vector<double> values;
};

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  // Pointwise programs, and ops that their shapes define, have no attributes.
  virtual std::vector<OpAttribute> attributes() const { return {}; }
  // Returns true if `other` is the same kind of op with equal attributes: equal inputs give equal
  // results. Common subexpression elimination relies on it.
  virtual bool is_equivalent(const Op& other) const = 0;
  // Returns the specs of the outputs; apply() sets their device. Throws ShapeError. Never reads
  // tensor values.
  virtual Specs infer(SpecView in) const = 0;

  // --- running (called through engine/prepare.h) ---
  // Returns whether the op has kernels for a kind of device. The default: all that are in the
  // build.
  virtual bool runs_on(DeviceKind kind) const;
  // Returns whether the kernels of a device read and write 16-bit elements themselves. If not, they
  // are prepared and run for float32 in place of 16 bits, and infer() alone decides which results
  // are rounded to 16.
  virtual bool takes_half(DeviceKind /*kind*/, SpecView /*in*/) const { return false; }
  // Returns the algorithms for target.device in order of preference; never empty. The device need
  // not exist. Scratch may depend on target.threads.
  virtual std::vector<Algorithm> algorithms(SpecView in, const Target& target) const;
  // Returns a kernel that runs `chosen`. The default kernel calls run() below.
  virtual std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx, const Algorithm& chosen) const;
  virtual void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const;
  virtual void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const;

  // --- gradient ---
  // If false, gradients() through the op throws an Error that names it.
  virtual bool differentiable() const { return false; }
  virtual Saved saved() const { return {}; }
  // Returns one tensor per input, defined if args.needs(input). Gradients are built by calling ops,
  // so with CreateGraph::yes they are differentiable themselves.
  virtual Tensors grad(const GradArgs& args) const;

  // --- facts for the compiler ---
  // Returns the input of which output `i` is a view, or -1. The view begins view_offset() bytes
  // into that input.
  virtual int view_of(int /*output*/) const { return -1; }
  virtual int64_t view_offset(SpecView /*in*/) const { return 0; }
  // Returns a mask: bit k is set if output `i` may be computed in place of input k when this op is
  // the last to read that input (XLA: may-alias).
  virtual uint32_t may_reuse(int /*output*/) const { return 0; }
  // Returns the persistent input that output `i` overwrites in place as its next version, or -1
  // (XLA: must-alias).
  virtual int updates(int /*output*/) const { return -1; }
  // Returns the op as a scalar program over its inputs if it is pointwise with one output.
  virtual std::optional<ScalarProgram> pointwise() const { return std::nullopt; }
  // Returns a simpler op, or a null op, that computes the same bits; else nullopt.
  virtual std::optional<FusedOp> simplified(SpecView /*in*/) const { return std::nullopt; }
  // Fuses `producer`, whose output is `input`: the fused op reads the inputs of `producer` instead
  // of `input`, computes the same bits and does no more work than this op alone. Returns nullopt if
  // there is no such op; a null op is allowed.
  virtual std::optional<FusedOp> fuse_producer(const Op& /*producer*/, int /*input*/,
                                               SpecView /*in*/, SpecView /*producer_in*/) const {
    return std::nullopt;
  }
  // Fuses `p` as an epilogue: the fused op applies `p` to its output while the output is in the
  // cache. Input `fused_input` of p is that output; p's other inputs follow the op's own, in order.
  // p_in are the specs of all inputs of p. Returns nullopt if that is not possible.
  virtual std::optional<FusedOp> fuse_epilogue(const ScalarProgram& /*p*/, int /*fused_input*/,
                                               SpecView /*in*/, SpecView /*p_in*/) const {
    return std::nullopt;
  }
  // Fuses `p`, which computes `input`, as a prologue: the fused op computes `input` while it reads
  // the inputs of p, so `input` need not be in memory. FusedOp::inputs does not contain `input`.
  // Returns nullopt if that is not possible.
  virtual std::optional<FusedOp> fuse_prologue(const ScalarProgram& /*p*/, int /*input*/,
                                               SpecView /*in*/, SpecView /*p_in*/,
                                               const Target& /*target*/) const {
    return std::nullopt;
  }
  // Fuses `consumer`, which reads the first output as its input `fused_input` (multi-output
  // fusion): the fused op also computes `consumer` while that output is in the cache. The outputs
  // of `consumer` follow the op's own. Returns nullopt if that is not possible.
  virtual std::optional<FusedOp> fuse_consumer(const OpPtr& /*consumer*/, int /*fused_input*/,
                                               SpecView /*in*/, SpecView /*consumer_in*/) const {
    return std::nullopt;
  }
  // Fuses `producer`, whose output is `input` and has no other user: the fused op computes both
  // part by part, so that `input` need not be in memory, with the same bits. Returns nullopt if
  // that is not possible, or not faster.
  virtual std::optional<FusedOp> fuse_chain(const OpPtr& /*producer*/, int /*input*/,
                                            SpecView /*in*/, SpecView /*producer_in*/,
                                            const Target& /*target*/) const {
    return std::nullopt;
  }
  // Returns the input [channels, ...] in which the first output [..., channels] is linear channel
  // by channel: scaling slice c of the input scales channel c of the output. -1 if there is none.
  // Used for batch-norm folding.
  virtual int scales_by_channel(SpecView /*in*/) const { return -1; }
  // Returns an op that reads one input in a faster layout (weight prepacking), or nullopt.
  virtual std::optional<PackedInput> pack_input(SpecView /*in*/, const Target& /*target*/) const {
    return std::nullopt;
  }
  // Returns true for copies between devices: their inputs may be on another device.
  virtual bool crosses_devices() const { return false; }
  // Returns true for ops whose inputs and outputs are used while later nodes run, until another op
  // waits (layers/ops/exchange.h). These values keep their place until then, and the op runs once:
  // neither it nor the producers of its inputs are recomputed.
  virtual bool is_asynchronous() const { return false; }
  // Returns the work of one run. The default reads every input once, writes every output once,
  // except views, and runs the operations of pointwise(), if any, per element.
  virtual Cost cost(SpecView in) const;

 protected:
  // Returns the default with this number of flops.
  Cost cost_with(SpecView in, int64_t flops) const;
};

// An op with attributes: implements is_equivalent() by their operator==.
template <class Derived, class Params = std::monostate>
class OpBase : public Op {
 public:
  explicit OpBase(Params p = {}) : params(std::move(p)) {}
  bool is_equivalent(const Op& other) const override {
    auto* that = dynamic_cast<const Derived*>(&other);
    return that != nullptr && that->params == static_cast<const Derived*>(this)->params;
  }

  const Params params;
};

// The single entry point of all ops. Checks devices, infers the output specs, then runs the op
// (eager mode) or records it (capture), and records it on the tape if an input is tracked. Throws
// ShapeError or DeviceError.
Tensors apply(const OpPtr& op, Tensors inputs);
// Calls apply() for an op with one output.
Tensor apply1(const OpPtr& op, Tensors inputs);

}  // namespace tessera
