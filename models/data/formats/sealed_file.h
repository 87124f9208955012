// Sealed files end with a checksum trailer, the seal: the line "tessera crc32 01234567\n", the
// CRC-32 (zlib's) of all bytes before it. It shows damage before a file is used. In a safetensors
// file the line is the last tensor.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/models/data/formats/safetensors.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

inline constexpr size_t kSealBytes = 23;
// The last tensor of a sealed safetensors file.
inline const ArraySpec kSealArray = {"checksum", "uint8", {kSealBytes}};

// Writes the seal of `bytes`. Allocates nothing.
void make_seal(std::span<const std::byte> bytes, std::span<char, kSealBytes> seal) noexcept;

// Writes the image and its seal with write_durably().
FileError write_sealed(FileSystem& files, const char* path,
                       std::span<const std::byte> image) noexcept;
// Writes an image in parts. The last part becomes the seal; requires that it is empty.
FileError write_sealed(FileSystem& files, const char* path,
                       std::span<std::span<const std::byte>> parts) noexcept;

// Returns true if the last bytes are the seal of all bytes before; sets `sealed` if they look like
// a seal at all. Reads in chunks, with a few KiB of memory. Throws what read() throws.
bool seal_holds(const ByteSource& file, bool& sealed);

}  // namespace tessera
