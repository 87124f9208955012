// The bytes of a block on any device, handed to the host piece by piece: for checks, not for speed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tessera/runtime/context.h"

namespace tessera {

// Calls f(bytes, offset, count) for each piece, in order, after all work issued there is done;
// stops where f returns false. The offsets are multiples of 4096. On the CPU there is one piece and
// no copy.
template <class F>
void for_host_chunks(Device device, const void* data, size_t bytes, F&& f) {
  const auto* at = static_cast<const std::byte*>(data);
  if (device.is_cpu()) {
    f(at, size_t{0}, bytes);
    return;
  }
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::byte> piece(std::min(kPiece, bytes));
  for (size_t offset = 0; offset < bytes; offset += kPiece) {
    const size_t count = std::min(kPiece, bytes - offset);
    context(device).copy_to_host(piece.data(), at + offset, count);
    if (!f(static_cast<const std::byte*>(piece.data()), offset, count)) return;
  }
}

}  // namespace tessera
