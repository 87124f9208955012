#include "tessera/runtime/random.h"

#include <cmath>
#include <numbers>

namespace tessera {

uint32_t RandomSequence::bits() {
  if (left_ == 0) {
    block_ = philox(key_, stream_, counter_++);
    left_ = 4;
  }
  return block_[4 - left_--];
}

uint64_t RandomSequence::below(uint64_t n) {
  uint64_t limit = UINT64_MAX - UINT64_MAX % n;
  uint64_t value = bits64();
  while (value >= limit) value = bits64();
  return value % n;
}

double RandomSequence::normal() {
  double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

uint64_t random_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3u;
  hash ^= hash >> 32;
  return hash * 0x9E3779B97F4A7C15u ^ seed;
}

}  // namespace tessera
