// What the bytes of an HDF5 data set mean: numbers of many types, chunks that filters have changed,
// and which elements of a data set a chunk holds. libhdf5 finds the bytes (hdf5_library.h), this
// decodes them: in as many threads as ask, where libhdf5 takes one at a time, and into buffers of a
// known size, where libhdf5 takes whatever a damaged gzip stream grows to.
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
  int bytes = 1;  // 1, 2, 4 or 8; of kFloat 2, 4 or 8
  bool big_endian = false;
  bool operator==(const Hdf5Number&) const = default;
  std::string name() const;  // "big-endian int16"
};

// Reads count numbers that lie one behind the other: to[i] = what stands at from + i * bytes.
// Integers above 2^53 are rounded.
void read_numbers(const std::byte* from, const Hdf5Number& type, size_t count, double* to);

// pixel = round((value - low) / (high - low) * 255).
struct PixelRange {
  double low = 0, high = 255;
};
// Writes to[0], to[stride], ... and returns how many were written: all `count`, or fewer where a
// value lies outside the range or is no number.
size_t to_pixels(const std::byte* from, const Hdf5Number& type, const PixelRange& range,
                 size_t count, uint8_t* to, ptrdiff_t stride);

struct Hdf5Filter {
  enum class Kind { kGzip, kShuffle, kFletcher32 };
  Kind kind = Kind::kGzip;
  size_t element_bytes = 1;  // of kShuffle
};

// Takes back what filters did to a chunk. Its two buffers are made once; not thread-safe.
class ChunkDecoder {
 public:
  // filters: in the order in which they were applied. chunk_bytes: before them.
  ChunkDecoder(std::vector<Hdf5Filter> filters, size_t chunk_bytes);
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  // What a chunk may take in a file: gzip makes some a little longer.
  static size_t max_stored(size_t chunk_bytes) { return chunk_bytes + chunk_bytes / 256 + 256; }
  // The memory that a decoder takes.
  static size_t host_bytes(size_t chunk_bytes) { return 2 * max_stored(chunk_bytes); }

  // [max_stored()]: where the stored bytes are to be put.
  std::span<std::byte> stored();
  // Decodes the first `count` of them; filter i was left out where bit i of `skipped` is set.
  // Returns chunk_bytes bytes, valid until the next call. Throws DataError, without the name of the
  // file, when they are damaged.
  std::span<const std::byte> decode(size_t count, uint32_t skipped);

 private:
  struct Inflater;
  size_t inflate(size_t count);

  const std::vector<Hdf5Filter> filters_;
  const size_t chunk_bytes_;
  std::unique_ptr<std::byte[]> from_, to_;
  std::unique_ptr<Inflater> inflater_;
};

// How one dimension of a box lies in two arrays, in elements.
struct BoxAxis {
  int64_t count = 0;         // extent of the box
  int64_t from = 0, to = 0;  // from one place to the next
};
// The most dimensions of a data set that is read.
inline constexpr size_t kMaxAxes = 4;
// Calls run(from, to, count, step) for pieces that are neighbours in the first array, `step` apart
// in the second: all elements, as few pieces as can be. axes: the outermost first, at least one.
void for_each_run(std::span<const BoxAxis> axes,
                  const std::function<void(int64_t, int64_t, int64_t, int64_t)>& run);

}  // namespace tessera
