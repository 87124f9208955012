// ConvFusion: the programs and ops that are fused into a convolution on the CPU, and the kernel of
// the fused op. The prologue is applied to the first input while it is read, the epilogue to the
// result. Consumers are ops that read the result block by block (BlockwiseOp) while it is written.
// Filters of float32 may be rounded to 16 bits in scratch.
//
// Inputs of the fused op: the two of the convolution, then those of the prologue, of the epilogue
// and of each consumer, each without its first, which is the convolution's input or result.
#pragma once

#include <memory>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/shared/epilogue.h"

namespace tessera {

struct ConvConsumer {
  OpPtr op;  // a BlockwiseOp with one output
  int inputs = 0;
  bool operator==(const ConvConsumer& other) const {
    return inputs == other.inputs && (op == other.op || op->is_equivalent(*other.op));
  }
};

struct ConvFusion {
  ScalarProgram prologue = plain_epilogue(DType::f32), epilogue = plain_epilogue(DType::f32);
  std::vector<ConvConsumer> consumers;
  DType filters = DType::f32;  // 16 bits: the second input is rounded to them
  bool operator==(const ConvFusion&) const = default;

  bool empty() const {
    return prologue.code.empty() && is_plain(epilogue) && consumers.empty() && !is_half(filters);
  }
  // Returns the index of the first input of the epilogue, or of the consumers.
  size_t epilogue_begin() const { return 2 + static_cast<size_t>(prologue.inputs) - 1; }
  size_t consumers_begin() const {
    return epilogue_begin() + static_cast<size_t>(epilogue.inputs) - 1;
  }
  // Returns the specs of the consumers' outputs, or the flops of the consumers and programs.
  Specs outputs(SpecView in, const TensorSpec& result) const;
  int64_t flops(SpecView in, const TensorSpec& result) const;
};

// The result of fusing one more program or op into `own`. The functions below return nullopt if
// that is not possible. `in` are the inputs of the fused op, `result` is the convolution's.

struct ExtendedFusion {
  ConvFusion fusion;
  std::vector<int> inputs;  // like FusedOp::inputs
};
std::optional<ExtendedFusion> with_epilogue(const ConvFusion& own, const ScalarProgram& p,
                                            int fused_input, SpecView in, const TensorSpec& result,
                                            SpecView p_in);
// Fuses `p`, which computes input 0 or an input of the epilogue with the shape of the result.
std::optional<ExtendedFusion> with_prologue(const ConvFusion& own, const ScalarProgram& p,
                                            int input, SpecView in, const TensorSpec& result,
                                            SpecView p_in);
// Fuses `p`, which only rounds, and computes input 1, the filters.
std::optional<ExtendedFusion> with_rounded_filters(const ConvFusion& own, const ScalarProgram& p,
                                                   SpecView in, SpecView p_in);
std::optional<ExtendedFusion> with_consumer(const ConvFusion& own, const OpPtr& consumer,
                                            int fused_input, SpecView in, const TensorSpec& result,
                                            SpecView consumer_in);

// Returns whether the first input of a convolution of `taken` is computed: by a prologue, or from
// another dtype.
bool computes_input(const ConvFusion& fusion, DType taken, SpecView in);
// Returns the bytes that the kernel needs in addition to the scratch of a convolution of `taken`.
// If that takes no prologue, a first input that is computed is there, as a whole.
size_t fused_scratch(const ConvFusion& fusion, DType taken, ConvVariant form, SpecView in);
// `convolution` is one of `taken`, in ranges if `out` has 16 bits.
std::unique_ptr<Kernel> fused_kernel(const std::shared_ptr<const AnyConvolution>& convolution,
                                     DType taken, ConvVariant form, const ConvFusion& fusion,
                                     SpecView in, const TensorSpec& out);

}  // namespace tessera
