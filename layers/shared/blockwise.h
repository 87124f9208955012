// Ops whose output has a part for each block of rows of their inputs, as the sums of the norms: the
// kernel that writes the first input can make them along with it, while the rows are in the cache.
#pragma once

#include "tessera/layers/shared/channel_blocks.h"

namespace tessera {

class BlockwiseOp {
 public:
  // Of the rows of input 0.
  virtual const ChannelBlocks& blocks() const = 0;
  // On the CPU: the parts of all outputs for one block, from its rows alone. From any thread.
  virtual void run_block(int64_t block, Buffers in, const Buffer& out) const = 0;

 protected:
  ~BlockwiseOp() = default;
};

// Runs an op block by block while its input 0 is written. Whoever writes the last rows of a block
// computes it, and as it computes the same as anybody else, the bits do not depend on who that is.
class BlocksAsWritten {
 public:
  static int64_t counters(const BlockwiseOp& op) { return op.blocks().count(); }

  // `counters` has one for each block; they are cleared here.
  BlocksAsWritten(const BlockwiseOp& op, Buffers in, const Buffer& out, int32_t* counters);
  // Rows [first, first + rows) have been written; each is said once. From any thread.
  void written(int64_t first, int64_t rows) const;

 private:
  const BlockwiseOp& op_;
  const Buffers in_;
  const Buffer out_;
  int32_t* const counters_;  // rows of each block that are there
};

}  // namespace tessera
