// Decodes the bytes of an HDF5 data set, which libhdf5 finds (hdf5_library.h): number types,
// filters of chunks, and the elements in a chunk. Unlike libhdf5, this code decodes in any number
// of threads and into buffers of a fixed size, even if a damaged gzip stream would grow larger.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera {

struct Hdf5Number {
  enum class Kind { kUnsigned, kSigned, kFloat };  // kFloat: IEEE 754
  Kind kind = Kind::kUnsigned;
  int bytes = 1;  // 1, 2, 4 or 8; kFloat: 2, 4 or 8
  bool big_endian = false;
  bool operator==(const Hdf5Number&) const = default;
  std::string name() const;  // "big-endian int16"
};

// Reads count contiguous numbers: to[i] = the number at from + i * type.bytes. Integers above 2^53
// are rounded.
void read_numbers(const std::byte* from, const Hdf5Number& type, size_t count, double* to);

// pixel = round((value - low) / (high - low) * 255).
struct PixelRange {
  double low = 0, high = 255;
};
// Writes to[0], to[stride], ... and returns the number written: `count`, or fewer if a value is
// outside the range or NaN.
size_t to_pixels(const std::byte* from, const Hdf5Number& type, const PixelRange& range,
                 size_t count, uint8_t* to, ptrdiff_t stride);

struct Hdf5Filter {
  enum class Kind { kGzip, kShuffle, kFletcher32 };
  Kind kind = Kind::kGzip;
  size_t element_bytes = 1;  // kShuffle only
};

// Reverses the filters of a chunk, in two buffers that are allocated once. Not thread-safe.
class ChunkDecoder {
 public:
  // filters: in the order of application. chunk_bytes: size before the filters.
  ChunkDecoder(std::vector<Hdf5Filter> filters, size_t chunk_bytes);
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  // Returns the maximum bytes of a stored chunk: gzip makes some chunks a little longer.
  static size_t max_stored(size_t chunk_bytes) { return chunk_bytes + chunk_bytes / 256 + 256; }
  // Returns the memory of a decoder.
  static size_t host_bytes(size_t chunk_bytes) { return 2 * max_stored(chunk_bytes); }

  // Returns the buffer [max_stored()] for the stored bytes.
  std::span<std::byte> stored();
  // Decodes the first `count` stored bytes; filter i was not applied if bit i of `skipped` is set.
  // Returns chunk_bytes bytes, valid until the next call. Throws DataError, without the name of the
  // file, if they are damaged.
  std::span<const std::byte> decode(size_t count, uint32_t skipped);

 private:
  struct Inflater;
  size_t inflate(size_t count);

  const std::vector<Hdf5Filter> filters_;
  const size_t chunk_bytes_;
  std::unique_ptr<std::byte[]> from_, to_;
  std::unique_ptr<Inflater> inflater_;
};

// One dimension of a box that is in two arrays.
struct BoxAxis {
  int64_t count = 0;         // extent of the box
  int64_t from = 0, to = 0;  // strides in elements
};
// The maximum number of dimensions of a data set that can be read.
inline constexpr size_t kMaxAxes = 4;
// Calls run(from, to, count, step) for all elements of the box, in as few runs as possible. A run
// is contiguous in the first array and has the stride `step` in the second. axes: outermost first,
// at least one.
void for_each_run(std::span<const BoxAxis> axes,
                  const std::function<void(int64_t, int64_t, int64_t, int64_t)>& run);

}  // namespace tessera
