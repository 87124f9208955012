// philox(): counter-based random bits, Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC 2011). A value depends on (key, counter) alone, so the order and the device
// of the computation do not matter. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/runtime/device.h"

namespace tessera {

struct RandomBits {
  uint32_t words[4];
  TESSERA_HOST_DEVICE uint32_t operator[](size_t i) const { return words[i]; }
};

// Returns the 128 random bits of one counter.
TESSERA_HOST_DEVICE inline RandomBits philox(uint64_t key, uint64_t counter_high,
                                             uint64_t counter_low) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1), c3 = static_cast<uint32_t>(p0), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// Returns a number uniform in [0, 1) with 24 random bits.
inline float uniform_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// A deterministic sequence of random numbers from one key and stream; cheap to construct.
class RandomSequence {
 public:
  // Begins after `skipped` counters of 128 bits each.
  RandomSequence(uint64_t key, uint64_t stream, uint64_t skipped = 0)
      : key_(key), stream_(stream), counter_(skipped) {}
  uint32_t bits();
  uint64_t bits64() {
    uint64_t high = bits();
    return high << 32 | bits();
  }
  double uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }  // [0, 1)
  // Returns an integer uniform in [0, n), n >= 1, without bias.
  uint64_t below(uint64_t n);
  double normal();  // mean 0, variance 1 (Box-Muller)

 private:
  uint64_t key_, stream_, counter_;
  RandomBits block_{};
  int left_ = 0;
};

// Returns the key of a named use: the FNV-1a hash of the name mixed with the seed.
uint64_t random_key(uint64_t seed, std::string_view name);

}  // namespace tessera
