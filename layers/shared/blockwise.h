// BlockwiseOp: an op whose output has a part for each block of rows of its inputs, such as the sums
// of the norms. Such a reduction can be fused into the producer of its first input: the kernel that
// writes the input also reduces its rows while they are in the cache.
#pragma once

#include "tessera/layers/shared/channel_blocks.h"

namespace tessera {

class BlockwiseOp {
 public:
  // Returns the blocks of the rows of input 0.
  virtual const ChannelBlocks& blocks() const = 0;
  // Computes, on the CPU, the parts of all outputs for one block from the block's rows.
  // Thread-safe.
  virtual void run_block(int64_t block, Buffers in, const Buffer& out) const = 0;

 protected:
  ~BlockwiseOp() = default;
};

// Runs an op block by block while its input 0 is written. The thread that writes the last rows of a
// block also reduces that block. Every thread reduces in the same order, so the result does not
// depend on the thread.
class BlocksAsWritten {
 public:
  static int64_t counters(const BlockwiseOp& op) { return op.blocks().count(); }

  // `counters` has an element for each block; the constructor clears them.
  BlocksAsWritten(const BlockwiseOp& op, Buffers in, const Buffer& out, int32_t* counters);
  // Reports that rows [first, first + rows) have been written, once for each row. Thread-safe.
  void written(int64_t first, int64_t rows) const;

 private:
  const BlockwiseOp& op_;
  const Buffers in_;
  const Buffer out_;
  int32_t* const counters_;  // written rows of each block
};

}  // namespace tessera
