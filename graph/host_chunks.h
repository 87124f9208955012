// for_host_chunks: passes the bytes of a block on any device to the host in chunks. For checks, not
// for speed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tessera/runtime/context.h"

namespace tessera {

// Waits for all work issued on the device, then calls f(bytes, offset, count) for each chunk in
// order until f returns false. Offsets are multiples of 4096. On the CPU there is one chunk and no
// copy.
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
