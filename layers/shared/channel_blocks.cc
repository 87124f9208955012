#include "tessera/layers/shared/channel_blocks.h"

#include <algorithm>
#include <atomic>

#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

class BlockMoments final : public OpBase<BlockMoments, ChannelBlocks>, public BlockwiseOp {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "block_moments"; }
  std::vector<OpAttribute> attributes() const override {
    return {{"block_rows", {static_cast<double>(params.block_rows)}}};
  }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    return {{compute_type(in[0].dtype), {params.count(), 2, in[0].shape.back()}, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    compute(ctx.pool(), in, out[0]);
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(in[0].spec.dtype, [&]<class S>(S) {
        block_moments_cuda(ctx, params, in[0].spec.shape.back(), in[0].as<const S>(),
                           out[0].as<Computed<S>>());
      });
  }
  bool takes_half(DeviceKind kind, SpecView) const override {
    return kind != DeviceKind::cpu || params.block_rows <= kMaxHalfRows;
  }

  const ChannelBlocks& blocks() const override { return params; }
  void run_block(int64_t block, Buffers in, const Buffer& out) const override {
    compute(BlocksToCompute(block), in, out);
  }

  // Counts the mean, the sum of deviations, which corrects the mean, and the sum of their squares.
  Cost cost(SpecView in) const override { return cost_with(in, 5 * in[0].shape.elements()); }

 private:
  void compute(const BlocksToCompute& which, Buffers in, const Buffer& out) const {
    visit_float(out.spec.dtype, [&]<class T>(T) {
      block_moments<T>(which, params, in[0].spec.shape.back(), in[0], out.as<T>());
    });
  }
};

class BlockGradientSums final : public OpBase<BlockGradientSums, ChannelBlocks>,
                                public BlockwiseOp {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "block_gradient_sums"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy", "x", "mean", "scale"});
    check.floats();
    check.shape(0, in[1].shape, "like x");
    check.shape(3, in[2].shape, "like mean");
    return {{compute_type(in[0].dtype), {params.count(), 2, in[0].shape.back()}, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    compute(ctx.pool(), in, out[0]);
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_any_float(in[0].spec.dtype, [&]<class S>(S) {
        using T = Computed<S>;
        const int64_t c = in[0].spec.shape.back();
        block_gradient_sums_cuda(ctx, params, c, in[0].as<const S>(), in[1].as<const S>(),
                                 in[2].as<const T>(), in[3].as<const T>(),
                                 in[2].spec.shape.rank() == 2 ? c : 0, out[0].as<T>());
      });
  }
  bool takes_half(DeviceKind kind, SpecView in) const override {
    const DType wide = compute_type(in[0].dtype);
    return in[2].dtype == wide && in[3].dtype == wide &&
           (kind == DeviceKind::cpu ? params.block_rows <= kMaxHalfRows
                                    : in[0].dtype == in[1].dtype);
  }

  const ChannelBlocks& blocks() const override { return params; }
  void run_block(int64_t block, Buffers in, const Buffer& out) const override {
    compute(BlocksToCompute(block), in, out);
  }

  Cost cost(SpecView in) const override { return cost_with(in, 4 * in[0].shape.elements()); }

 private:
  void compute(const BlocksToCompute& which, Buffers in, const Buffer& out) const {
    const int64_t c = in[0].spec.shape.back();
    visit_float(out.spec.dtype, [&]<class T>(T) {
      block_gradient_sums<T>(which, params, c, in[0], in[1], in[2].as<T>(), in[3].as<T>(),
                             in[2].spec.shape.rank() == 2 ? c : 0, out.as<T>());
    });
  }
};

class ReduceBlocks final : public OpBase<ReduceBlocks> {
 public:
  std::string_view name() const override { return "reduce_blocks"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"sums"});
    check.floats();
    check.rank(0, 3);
    return Specs(2, {in[0].dtype, {in[0].shape[2]}, {}});
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_float(out[0].spec.dtype, [&]<class T>(T) {
      reduce_blocks<T>(ctx.pool(), in[0].spec.shape[0], in[0].spec.shape[2], in[0].as<T>(),
                       out[0].as<T>(), out[1].as<T>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      visit_float(out[0].spec.dtype, [&]<class T>(T) {
        fold_blocks_cuda<T>(ctx, in[0].spec.shape[0], in[0].spec.shape[2], in[0].as<T>(),
                            out[0].as<T>(), out[1].as<T>());
      });
  }

  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

}  // namespace

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

ChannelBlocks channel_blocks(const TensorSpec& x) {
  const int64_t c = std::max<int64_t>(x.shape.back(), 1), rows = x.shape.elements() / c;
  if (x.device.is_cpu()) return {rows, std::max<int64_t>(64, 16384 / c)};
  // kTile adjacent channels (channel_blocks_cuda.cu) of a block are one block of the grid.
  constexpr int64_t kTile = 128, kGrid = 1024, kMaxBlocks = 512, kMinElements = 8192;
  const int64_t tiles = (c + kTile - 1) / kTile;
  const int64_t most = std::clamp<int64_t>(kGrid / tiles, 1, kMaxBlocks);
  return {rows, std::max((rows + most - 1) / most, kMinElements / std::min(c, kTile))};
}

Tensor block_moments(const Tensor& x, ChannelBlocks blocks) {
  return apply1(std::make_shared<BlockMoments>(blocks), {x});
}

Tensor block_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean,
                           const Tensor& scale, ChannelBlocks blocks) {
  return apply1(std::make_shared<BlockGradientSums>(blocks), {dy, x, mean, scale});
}

Tensors reduce_blocks(const Tensor& sums) {
  return apply(std::make_shared<ReduceBlocks>(), {sums});
}

}  // namespace tessera
