// Sizes of memory for people.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

// "85.1 MiB": in the largest of B, KiB, MiB and GiB that leaves at least one, with so many
// decimals; whole bytes without any.
std::string byte_text(int64_t bytes, int decimals = 2);

}  // namespace tessera
