#include "tessera/models/data/formats/hdf5_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Contiguous rows are read in pieces of about this many bytes.
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

BlockCache::BlockCache(int64_t blocks, size_t block_bytes, int64_t slots, Fill fill)
    : block_bytes_(block_bytes),
      fill_(std::move(fill)),
      where_(static_cast<size_t>(blocks), -1),
      slots_(static_cast<size_t>(slots)),
      bytes_(std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(slots) * block_bytes)) {
  for (size_t i = 0; i < slots_.size(); ++i) make_newest(static_cast<int32_t>(i));
}

size_t BlockCache::host_bytes(int64_t blocks, size_t block_bytes, int64_t slots) {
  return static_cast<size_t>(slots) * (block_bytes + sizeof(Slot)) +
         static_cast<size_t>(blocks) * sizeof(int32_t);
}

uint8_t* BlockCache::bytes_of(int32_t slot) const {
  return bytes_.get() + static_cast<size_t>(slot) * block_bytes_;
}

void BlockCache::unlink(int32_t slot) {
  const auto at = [&](int32_t i) -> Slot& { return slots_[static_cast<size_t>(i)]; };
  const auto [newer, older] = std::pair(at(slot).newer, at(slot).older);
  (newer < 0 ? newest_ : at(newer).older) = older;
  (older < 0 ? oldest_ : at(older).newer) = newer;
}

void BlockCache::make_newest(int32_t slot) {
  const auto at = [&](int32_t i) -> Slot& { return slots_[static_cast<size_t>(i)]; };
  at(slot).newer = -1;
  at(slot).older = newest_;
  (newest_ < 0 ? oldest_ : at(newest_).newer) = slot;
  newest_ = slot;
}

int32_t BlockCache::free_slot() const {
  int32_t slot = oldest_;
  while (slot >= 0) {
    const Slot& at = slots_[static_cast<size_t>(slot)];
    if (at.readers == 0 && (at.ready || at.block < 0)) return slot;
    slot = at.newer;
  }
  return -1;
}

void BlockCache::fill(std::unique_lock<std::mutex>& lock, int32_t slot, int64_t block) {
  Slot& at = slots_[static_cast<size_t>(slot)];
  int32_t& place = where_[static_cast<size_t>(block)];
  if (at.block >= 0) where_[static_cast<size_t>(at.block)] = -1;
  at.block = block;
  at.ready = false;
  place = slot;
  lock.unlock();
  try {
    fill_(block, bytes_of(slot));
  } catch (...) {
    lock.lock();
    at.block = place = -1;
    changed_.notify_all();
    throw;
  }
  lock.lock();
  at.ready = true;
  changed_.notify_all();
}

void BlockCache::read(int64_t block, size_t offset, size_t count, uint8_t* to) {
  std::unique_lock lock(mutex_);
  while (true) {
    const int32_t slot = where_[static_cast<size_t>(block)];
    if (slot < 0) {
      if (const int32_t free = free_slot(); free >= 0)
        fill(lock, free, block);
      else
        changed_.wait(lock);
      continue;
    }
    Slot& at = slots_[static_cast<size_t>(slot)];
    if (!at.ready) {
      changed_.wait(lock);
      continue;
    }
    unlink(slot);
    make_newest(slot);
    ++at.readers;
    lock.unlock();
    std::memcpy(to, bytes_of(slot) + offset, count);
    lock.lock();
    // Threads that wait for a slot wait for its last reader.
    if (--at.readers == 0) changed_.notify_all();
    return;
  }
}

}  // namespace tessera
