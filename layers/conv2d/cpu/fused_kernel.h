// What is fused into a convolution on the CPU, and the kernel that does it all: a program that is
// applied to its first input as that is read, one that is applied to its result, and ops that read
// the result block by block (BlockwiseOp) and are computed while it is written.
//
// Inputs of the whole: the two of the convolution, then those of the prologue, of the epilogue and
// of each reader, each without its first, which is the convolution's input or result.
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
  ScalarProgram prologue = identity_program(), epilogue = identity_program();
  std::vector<ConvConsumer> consumers;
  bool operator==(const ConvFusion&) const = default;

  bool empty() const { return prologue.code.empty() && epilogue.code.empty() && consumers.empty(); }
  // Where the inputs of the epilogue and of the readers begin.
  size_t epilogue_begin() const { return 2 + static_cast<size_t>(prologue.inputs) - 1; }
  size_t consumers_begin() const {
    return epilogue_begin() + static_cast<size_t>(epilogue.inputs) - 1;
  }
  // Specs of the readers' outputs, and their flops with those of the programs.
  Specs outputs(std::span<const TensorSpec> in, const TensorSpec& result) const;
  int64_t flops(std::span<const TensorSpec> in, const TensorSpec& result) const;
};

// What fusing more would make of it; nullopt where it cannot be. `in` are the inputs of the whole,
// `result` the convolution's.

struct ExtendedFusion {
  ConvFusion fusion;
  std::vector<int> inputs;  // as FusedOp's
};
std::optional<ExtendedFusion> with_epilogue(const ConvFusion& own, const ScalarProgram& p,
                                            int fused_input, std::span<const TensorSpec> in,
                                            const TensorSpec& result,
                                            std::span<const TensorSpec> p_in);
// `p` makes input 0, or an input of the epilogue that is as large as the result.
std::optional<ExtendedFusion> with_prologue(const ConvFusion& own, const ScalarProgram& p,
                                            int input, std::span<const TensorSpec> in,
                                            const TensorSpec& result,
                                            std::span<const TensorSpec> p_in);
std::optional<ExtendedFusion> with_consumer(const ConvFusion& own, const OpPtr& consumer,
                                            int fused_input, std::span<const TensorSpec> in,
                                            const TensorSpec& result,
                                            std::span<const TensorSpec> consumer_in);

// Bytes that the kernel needs besides the convolution's scratch. One that takes no prologue is
// given its input as a whole.
size_t fused_scratch(const ConvFusion& fusion, bool takes_prologue, const TensorSpec& first);
std::unique_ptr<Kernel> fused_kernel(const std::shared_ptr<const AnyConvolution>& convolution,
                                     bool takes_prologue, const ConvFusion& fusion,
                                     std::span<const TensorSpec> in, const TensorSpec& result);

}  // namespace tessera
