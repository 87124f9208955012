#include "tessera/models/data/block_cache.h"

#include <cstring>
#include <utility>

namespace tessera {

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
    // Whoever waits for a slot waits for the last of its readers.
    if (--at.readers == 0) changed_.notify_all();
    return;
  }
}

}  // namespace tessera
