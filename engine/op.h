// Op: the one interface that every operation implements, and Kernel, what runs it.
//
// An op is a small immutable object holding its settings. It is run eagerly, kept on the tape for
// the gradient and stored in graphs; all three share the object. Most ops write name(), same(),
// infer(), a run() per device and grad(), and inherit the rest. What a compiler pass must know of
// an op, the op says itself through the facts below; no pass knows an op by name.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/engine/scalar_program.h"
#include "tessera/engine/tensor.h"
#include "tessera/runtime/context.h"

namespace tessera {

// A tensor's bytes as a kernel sees them.
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

// A prepared way to compute one op for fixed shapes on one device. It may hold packed layouts or a
// library's plan. run() only issues work: no allocation, no synchronisation, no branch on values.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // scratch.data starts at a multiple of alignment_of(device) and holds at least the chosen
  // Algorithm's bytes.
  virtual void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) = 0;
};

// One of several ways to compute an op. Names are unique within an op and the same in all ops that
// share the code: "eigen" uses Eigen; all others of matrix products ("native") and convolutions on
// the CPU (layers/conv2d/cpu/algorithms.h) are written by hand for AVX2 and AVX-512.
struct Algorithm {
  std::string_view name = "default";
  size_t scratch_bytes = 0;
};

// What grad() is given. inputs[i] and outputs[i] are defined only where saved() names them.
// grad_outputs[i] is undefined when nothing that is differentiated depends on output i.
struct GradArgs {
  std::span<const Tensor> inputs, outputs, grad_outputs;
  std::span<const TensorSpec> input_specs, output_specs;
  std::vector<bool> needed;  // of each input: its gradient is wanted
  bool needs(int input) const { return needed[static_cast<size_t>(input)]; }
};

// Bit i of `inputs` / `outputs`: the gradient reads that tensor, so it is kept until then.
struct Saved {
  uint32_t inputs = 0, outputs = 0;
};

// What one run of an op does at least, counted from shapes alone: for profiles, never for a choice.
// A multiplication and an addition are two flops, fused or not; an exponential, a root or another
// function is one.
struct Cost {
  int64_t flops = 0, bytes_read = 0, bytes_written = 0;
  bool operator==(const Cost&) const = default;
};

class Op;
using OpPtr = std::shared_ptr<const Op>;

// An op with another op folded in; `inputs` says where each input of the new op comes from:
// k >= 0 is input k of the absorbing op, -1 - k is input k of the absorbed one.
struct FusedOp {
  OpPtr op;
  std::vector<int> inputs;
};

// An op with one input in another form, which `pack` makes of it: a packed layout, for an input
// that stays as it is from run to run.
struct PackedInput {
  int input;
  OpPtr pack, op;  // pack: one input, one output
};

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  // Equal settings: with equal inputs, equal results. Merging equal steps relies on it.
  virtual bool is_equivalent(const Op& other) const = 0;
  // The specs of the outputs (their device is set by apply()), or throws ShapeError. Sees no data.
  virtual Specs infer(std::span<const TensorSpec> in) const = 0;

  // --- running ---
  virtual bool runs_on(DeviceKind kind) const { return kind == DeviceKind::cpu; }
  // What can run on this device, which need not be there, the best first, never empty. Scratch may
  // depend on target.threads.
  virtual std::vector<Algorithm> algorithms(std::span<const TensorSpec> in,
                                            const Target& target) const;
  // Default: a kernel that calls run() below.
  virtual std::unique_ptr<Kernel> prepare(std::span<const TensorSpec> in, Context& ctx,
                                          const Algorithm& chosen) const;
  virtual void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const;
  virtual void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const;

  // --- gradient ---
  // False: gradients() through the op is an Error that names it.
  virtual bool differentiable() const { return false; }
  virtual Saved saved() const { return {}; }
  // One tensor per input, defined where needed. Made of ops that are differentiable themselves, it
  // has gradients in turn (CreateGraph::yes).
  virtual Tensors grad(const GradArgs& args) const;

  // --- facts ---
  // The input that output `i` is a part of, or -1; its bytes start view_offset() into the input.
  virtual int view_of(int /*output*/) const { return -1; }
  virtual int64_t view_offset(std::span<const TensorSpec> /*in*/) const { return 0; }
  // Bit k: output `i` may take the block of input k when that dies here.
  virtual uint32_t may_reuse(int /*output*/) const { return 0; }
  // The input that output `i` is the next version of, or -1.
  virtual int updates(int /*output*/) const { return -1; }
  // The op as a little scalar program over its inputs, if it is one (a single output).
  virtual std::optional<ScalarProgram> pointwise() const { return std::nullopt; }
  // The op said shorter, with the same bits; where the new op is none (nullptr), the output is
  // input inputs[0] as it is. None: nullopt.
  virtual std::optional<FusedOp> simplified(std::span<const TensorSpec> in) const;
  // An op that is no more work than this one and reads what `producer`, which makes `input`, reads
  // instead, with the same bits; or none (nullptr), as above. `input` itself is not read any more.
  virtual std::optional<FusedOp> fuse_producer(const Op& producer, int input,
                                               std::span<const TensorSpec> in,
                                               std::span<const TensorSpec> producer_in) const;
  // A new op that applies `p` to its output while it is in the cache. Input `fused_input` of p is
  // that output; the others follow the op's own inputs, in order. `others` are their specs. None:
  // nullopt.
  virtual std::optional<FusedOp> fuse_epilogue(const ScalarProgram& p, int fused_input,
                                               std::span<const TensorSpec> in,
                                               std::span<const TensorSpec> p_in) const;
  // A new op that applies `p` to what it reads as `input`, as it reads it, so that the result of p
  // need not be in memory. FusedOp::inputs names no `input`. None: nullopt.
  virtual std::optional<FusedOp> fuse_prologue(const ScalarProgram& p, int input,
                                               std::span<const TensorSpec> in,
                                               std::span<const TensorSpec> p_in,
                                               const Target& target) const;
  // A new op that also computes `reader`, which reads its first output as `fused_input`, while that
  // is in the cache. The outputs of the reader follow its own. None: nullopt.
  virtual std::optional<FusedOp> fuse_consumer(const OpPtr& consumer, int fused_input,
                                               std::span<const TensorSpec> in,
                                               std::span<const TensorSpec> consumer_in) const;
  // The input, [channels, ...], that the first output, [..., channels], is linear in, so that to
  // scale one of its slices is to scale that channel; -1: none.
  virtual int scales_by_channel(std::span<const TensorSpec> /*in*/) const { return -1; }
  // What reads an input that does not change in a form in which it is faster to read. None:
  // nullopt.
  virtual std::optional<PackedInput> pack_input(std::span<const TensorSpec> in,
                                                const Target& target) const;
  // A copy moves values between devices, so its inputs may stand elsewhere.
  virtual bool crosses_devices() const { return false; }
  // Default: reads its inputs and writes its outputs once, views aside, with the operations of
  // pointwise() on every element, where it is one.
  virtual Cost cost(std::span<const TensorSpec> in) const;

 protected:
  // The default with so many flops.
  Cost cost_with(std::span<const TensorSpec> in, int64_t flops) const;
};

// Gives an op its same(): Derived holds its settings in `params`, which has operator==.
template <class Derived>
class OpBase : public Op {
 public:
  bool is_equivalent(const Op& other) const override {
    auto* twin = dynamic_cast<const Derived*>(&other);
    return twin != nullptr && twin->params == static_cast<const Derived*>(this)->params;
  }
};

// The first of op.algorithms() that target.cpu.kernels allows; the first of all where it allows
// none, as for an op with one algorithm. On a GPU the first. Eager and graph mode both ask here.
Algorithm choose_algorithm(const Op& op, std::span<const TensorSpec> in, const Target& target);

// The one door: checks the inputs, infers the specs, runs the op now or writes it down (capture),
// and ties the outputs to the tape when an input is tracked. Throws ShapeError or DeviceError.
Tensors apply(const OpPtr& op, Tensors inputs);
// For ops with one output.
Tensor apply1(const OpPtr& op, Tensors inputs);

}  // namespace tessera
