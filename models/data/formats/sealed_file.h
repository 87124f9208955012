// Files that end with their own checksum: the line "tessera crc32 01234567\n", the CRC-32 (zlib's)
// of all bytes before it. So damage is found before anything in a file is believed. In a
// safetensors file the line is its last tensor.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/models/data/formats/array_spec.h"
#include "tessera/runtime/files/byte_source.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

inline constexpr size_t kSealBytes = 23;
// The last tensor of a safetensors file that is sealed.
inline const ArraySpec kSealArray = {"checksum", "uint8", {kSealBytes}};

// Writes the line for `bytes`. Allocates nothing.
void make_seal(std::span<const std::byte> bytes, std::span<char, kSealBytes> seal) noexcept;

// write_durably() of the image and its seal.
FileError write_sealed(FileSystem& files, const char* path,
                       std::span<const std::byte> image) noexcept;
// The same of an image in parts; the last of them, which must be empty, becomes the seal.
FileError write_sealed(FileSystem& files, const char* path,
                       std::span<std::span<const std::byte>> parts) noexcept;

// Whether the last bytes are the right seal of all before; `sealed` tells whether they look like
// a seal at all. In pieces: takes a few KiB. Throws what read() throws.
bool seal_holds(const ByteSource& file, bool& sealed);

}  // namespace tessera
