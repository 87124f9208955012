#include "tessera/models/data/formats/hdf5_blocks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Rows in one piece are read so many bytes at a time.
constexpr int64_t kPiece = int64_t{64} << 10;

size_t bytes_of(std::span<const int64_t> shape, const Hdf5Number& type) {
  auto bytes = static_cast<size_t>(type.bytes);
  for (int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

}  // namespace

Hdf5Blocks::Hdf5Blocks(std::shared_ptr<const Hdf5Data> data, std::string rows)
    : data_(std::move(data)), name_(std::move(rows)) {
  const std::span<const int64_t> shape(info().shape);
  row_bytes_ = bytes_of(shape.subspan(1), info().type);
  if (info().chunk.empty()) {
    rows_ = std::clamp<int64_t>(kPiece / static_cast<int64_t>(row_bytes_), 1, shape[0]);
  } else {
    rows_ = std::min(info().chunk[0], shape[0]);
    chunk_bytes_ = bytes_of(info().chunk, info().type);
  }
}

Hdf5Blocks::Work Hdf5Blocks::make_work() const {
  Work work;
  if (info().chunk.empty())
    work.stored = std::make_unique_for_overwrite<std::byte[]>(work_bytes());
  else
    work.decoder = std::make_unique<ChunkDecoder>(info().filters, chunk_bytes_);
  return work;
}

size_t Hdf5Blocks::work_bytes() const {
  return info().chunk.empty() ? static_cast<size_t>(rows_) * row_bytes_
                              : ChunkDecoder::host_bytes(chunk_bytes_);
}

void Hdf5Blocks::read(int64_t block, std::span<const int64_t> strides, Work& work,
                      const Use& use) const {
  if (!info().chunk.empty()) return read_chunks(block, strides, work, use);
  const std::vector<int64_t>& shape = info().shape;
  const int64_t first = block * rows_, count = std::min(rows_, shape[0] - first);
  try {
    data_->read_rows(first, count, {work.stored.get(), static_cast<size_t>(count) * row_bytes_});
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: '{}', {} {} to {}: {}", info().file, info().path, name_, first,
                                first + count - 1, error.what()));
  }
  std::array<BoxAxis, kMaxAxes> axes;
  int64_t from = 1;
  for (size_t i = shape.size(); i-- > 0; from *= shape[i])
    axes[i] = {i == 0 ? count : shape[i], from, strides[i]};
  for_each_run({axes.data(), shape.size()}, [&](int64_t at, int64_t to, int64_t run, int64_t step) {
    use(work.stored.get() + at * info().type.bytes, to, run, step);
  });
}

void Hdf5Blocks::read_chunks(int64_t block, std::span<const int64_t> strides, Work& work,
                             const Use& use) const {
  const std::vector<int64_t>&shape = info().shape, &chunk = info().chunk;
  std::array<int64_t, kMaxAxes> at{};
  const std::span<int64_t> first(at.data(), shape.size());
  first[0] = block * rows_;
  while (true) {
    read_chunk(first, strides, work, use);
    size_t i = shape.size();
    while (i > 1 && (first[i - 1] += chunk[i - 1]) >= shape[i - 1]) first[--i] = 0;
    if (i <= 1) return;
  }
}

void Hdf5Blocks::read_chunk(std::span<const int64_t> first, std::span<const int64_t> strides,
                            Work& work, const Use& use) const {
  const std::vector<int64_t>&shape = info().shape, &chunk = info().chunk;
  std::span<const std::byte> bytes;
  try {
    uint32_t skipped = 0;
    const size_t stored = data_->read_chunk(first, work.decoder->stored(), skipped);
    bytes = work.decoder->decode(stored, skipped);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: '{}', the chunk at ({}), {} {} to {}: {}", info().file,
                                info().path, fmt::join(first, ", "), name_, first[0],
                                std::min(first[0] + chunk[0], shape[0]) - 1, error.what()));
  }
  std::array<BoxAxis, kMaxAxes> axes;
  int64_t from = 1, to = 0;
  for (size_t i = shape.size(); i-- > 0; from *= chunk[i]) {
    axes[i] = {std::min(chunk[i], shape[i] - first[i]), from, strides[i]};
    if (i > 0) to += first[i] * strides[i];
  }
  for_each_run({axes.data(), shape.size()},
               [&](int64_t at, int64_t place, int64_t run, int64_t step) {
                 use(bytes.data() + at * info().type.bytes, to + place, run, step);
               });
}

}  // namespace tessera
