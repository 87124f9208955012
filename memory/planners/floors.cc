#include "tessera/memory/planners/floors.h"

#include <algorithm>
#include <limits>

namespace tessera::planning {
namespace {

uint64_t hash_of(int block) {  // the finaliser of SplitMix64
  uint64_t z = (static_cast<uint64_t>(block) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Floors::Floors(const Sections& sections, bool sums)
    : sections_(sections), sums_(sums), fixed_(sections.blocks.size()) {
  for (int s = 0; s < sections.count(); ++s) {
    const std::span<const int32_t> members = sections.members(s);
    first_.push_back(static_cast<int32_t>(members_.size()));
    members_.insert(members_.end(), members.begin(), members.end());
    int64_t most = 0;
    for (int32_t b : members) {
      most = std::max(most, sections.blocks[b].room - sections.blocks[b].size);
      if (sections.blocks[b].fixed < 0) continue;
      for (int32_t other : members) {
        if (other != b) fixed_[other].push_back(b);
      }
    }
    spare_.push_back(most);
  }
  for (std::vector<int32_t>& blocks : fixed_) {
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  }
  blame_.assign(sections.count(), 10);
}

bool Floors::reset(int64_t capacity) {
  const size_t count = sections_.count();
  const std::vector<Block>& blocks = sections_.blocks;
  trail_.clear();
  low_.assign(blocks.size(), -1);
  placed_.assign(blocks.size(), 0);
  floor_.assign(count, 0);
  rest_.assign(count, 0);
  top_.assign(count, capacity);
  witness_.assign(count, -1);
  ready_.assign(count, -1);
  live_.assign(count, 0);
  links_.assign(count, 0);
  hash_.assign(count, 0);
  is_dirty_.assign(count, 0);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const int block = static_cast<int>(b);
    for (int s = blocks[b].hull.lower; s + 1 < blocks[b].hull.upper; ++s) ++links_[s];
    hash_[blocks[b].hull.lower] ^= hash_of(block);
    for (const Span span : sections_.spans(block)) {
      for (int s = span.lower; s < span.upper; ++s) {
        members_[first_[s] + live_[s]++] = block;
        rest_[s] += blocks[b].room;
      }
    }
  }
  bool fits = true;
  for (size_t b = 0; b < blocks.size() && fits; ++b) fits = raise(static_cast<int>(b), 0);
  for (size_t s = 0; s < count; ++s) touch(static_cast<int>(s));
  return clean(fits);
}

void Floors::undo(size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    switch (change.kind) {
      case Kind::kTakenOut:
        put_back(change.index);
        break;
      case Kind::kLow:
        low_[change.index] = change.before;
        forget_ready(change.index);
        break;
      case Kind::kFloor:
        floor_[change.index] = change.before;
        ready_[change.index] = -1;
        break;
      case Kind::kTop:
        top_[change.index] = change.before;
        break;
      case Kind::kWitness:
        witness_[change.index] = change.before;
        break;
    }
  }
}

int Floors::ready(int section) const {
  if (ready_[section] < 0) {
    ready_[section] = 0;
    for (int32_t b : left(section)) ready_[section] += low_[b] == floor_[section];
  }
  return ready_[section];
}

void Floors::forget_ready(int block) {
  for (const Span span : sections_.spans(block)) {
    std::fill(ready_.begin() + span.lower, ready_.begin() + span.upper, -1);
  }
}

void Floors::take_out(int block, int64_t offset) {
  const Block& b = sections_.blocks[block];
  set(Kind::kLow, low_, block, offset);
  trail_.push_back({Kind::kTakenOut, block, 0});
  forget_ready(block);
  placed_[block] = 1;
  hash_[b.hull.lower] ^= hash_of(block);
  for (int s = b.hull.lower; s + 1 < b.hull.upper; ++s) --links_[s];
  for (const Span span : sections_.spans(block)) {
    for (int s = span.lower; s < span.upper; ++s) {
      rest_[s] -= b.room;
      int32_t* at = members_.data() + first_[s];
      int32_t* const last = at + --live_[s];
      while (*at != block) ++at;
      std::swap(*at, *last);
    }
  }
}

// It still stands behind those that are left, because all later steps were undone before.
void Floors::put_back(int block) {
  const Block& b = sections_.blocks[block];
  placed_[block] = 0;
  hash_[b.hull.lower] ^= hash_of(block);
  for (int s = b.hull.lower; s + 1 < b.hull.upper; ++s) ++links_[s];
  for (const Span span : sections_.spans(block)) {
    for (int s = span.lower; s < span.upper; ++s) {
      rest_[s] += b.room;
      ++live_[s];
    }
  }
}

// The lowest offset, from the given one on, at which it may stand; false when there is none.
bool Floors::settle(int block, int64_t& offset) const {
  const Block& b = sections_.blocks[block];
  const int64_t highest = top_[b.hull.lower] - b.size;
  if (b.fixed >= 0) {
    const bool fits = offset <= b.fixed;
    offset = b.fixed;
    return fits && offset <= highest;
  }
  for (bool moved = !sections_.uniform; moved && offset <= highest;) {
    moved = false;
    offset = (offset + b.alignment - 1) / b.alignment * b.alignment;
    for (int32_t other : fixed_[block]) {
      const Block& f = sections_.blocks[other];
      if (placed_[other] || offset + b.size <= f.fixed || f.fixed + f.size <= offset) continue;
      offset = f.fixed + f.size;
      moved = true;
    }
  }
  return offset <= highest;
}

bool Floors::raise(int block, int64_t offset) {
  if (!settle(block, offset)) return false;
  if (offset <= low_[block]) return true;
  set(Kind::kLow, low_, block, offset);
  forget_ready(block);
  for (const Span span : sections_.spans(block)) {
    for (int s = span.lower; s < span.upper; ++s) {
      if (witness_[s] == block) touch(s);
    }
  }
  return true;
}

void Floors::touch(int section) {
  if (is_dirty_[section]) return;
  is_dirty_[section] = 1;
  dirty_.push_back(section);
}

// Brings the floors of touched sections up to date, unless all is lost already.
bool Floors::clean(bool fits) {
  for (int32_t s : dirty_) {
    is_dirty_[s] = 0;
    if (!fits || live_[s] == 0) continue;
    int64_t lowest = std::numeric_limits<int64_t>::max();
    int32_t witness = -1;
    for (int32_t b : left(s)) {
      if (low_[b] >= lowest) continue;
      lowest = low_[b];
      witness = b;
    }
    ready_[s] = -1;
    if (witness_[s] != witness) set(Kind::kWitness, witness_, s, witness);
    if (lowest > floor_[s]) set(Kind::kFloor, floor_, s, lowest);
    if (sums_ && slack(s) < 0) {
      ++blame_[s];
      fits = false;
    }
  }
  dirty_.clear();
  return fits;
}

bool Floors::place(int block, int64_t offset) {
  take_out(block, offset);
  lifted_ = false;
  const int64_t above = offset + sections_.blocks[block].room;
  bool fits = true;
  for (const Span span : sections_.spans(block)) {
    for (int s = span.lower; s < span.upper && fits; ++s) {
      set(Kind::kFloor, floor_, s, above);
      ready_[s] = -1;
      if (live_[s] == 0) continue;
      touch(s);
      fits = !sums_ || slack(s) >= 0;
      for (int32_t b : left(s)) {
        if (!fits) break;
        if (low_[b] >= above) continue;
        lifted_ = true;
        fits = raise(b, above);
      }
      if (!fits) ++blame_[s];
    }
  }
  lifted_ = lifted_ || !fits;
  return clean(fits);
}

bool Floors::rise(int section, int64_t height) {
  bool fits = true;
  for (int32_t b : left(section)) {
    if (fits && low_[b] < height) fits = raise(b, height);
  }
  if (!fits) ++blame_[section];
  return clean(fits);
}

bool Floors::lift_long(Span part, bool& any) {
  any = false;
  for (int i = 0; i < live_[part.lower];) {
    const int32_t b = members_[first_[part.lower] + i];
    const Block& block = sections_.blocks[b];
    if (block.hull != part || sections_.spans(b).size() > 1) {
      ++i;
      continue;
    }
    any = true;
    const int64_t offset = top_[part.lower] - block.room;
    take_out(b, offset);
    for (int s = part.lower; s < part.upper; ++s) {
      set(Kind::kTop, top_, s, offset);
      touch(s);
    }
  }
  bool fits = true;
  for (int s = part.lower; s < part.upper && any; ++s) {
    for (int32_t b : left(s)) fits = fits && low_[b] <= top_[s] - sections_.blocks[b].size;
  }
  return clean(fits);
}

}  // namespace tessera::planning
