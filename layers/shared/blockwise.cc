#include "tessera/layers/shared/blockwise.h"

#include <algorithm>
#include <atomic>

namespace tessera {

BlocksAsWritten::BlocksAsWritten(const BlockwiseOp& op, Buffers in, const Buffer& out,
                                 int32_t* counters)
    : op_(op), in_(in), out_(out), counters_(counters) {
  std::fill_n(counters, op.blocks().count(), 0);
}

void BlocksAsWritten::written(int64_t first, int64_t rows) const {
  const ChannelBlocks& blocks = op_.blocks();
  const int64_t end = first + rows;
  for (int64_t b = first / blocks.block_rows; b < blocks.count() && blocks.begin(b) < end; ++b) {
    const int64_t begin = blocks.begin(b), size = blocks.size(b);
    const auto own = static_cast<int32_t>(std::min(end, begin + size) - std::max(first, begin));
    // Acquires the rows that other threads wrote before they counted them.
    const int32_t before = std::atomic_ref(counters_[b]).fetch_add(own, std::memory_order_acq_rel);
    if (before + own == size) op_.run_block(b, in_, out_);
  }
}

}  // namespace tessera
