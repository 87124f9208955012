#include "tessera/models/data/formats/hdf5_chunk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

static_assert(std::endian::native == std::endian::little);

// IEEE 754 binary16, for which C++20 has no type.
struct Half {
  uint16_t bits;
  explicit operator double() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31)
      return fraction == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
    return sign *
           (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
  }
};

template <class Value>
struct Reader {
  bool big_endian;
  double operator()(const std::byte* from) const {
    std::array<std::byte, sizeof(Value)> bytes;
    std::memcpy(bytes.data(), from, bytes.size());
    if (big_endian) std::reverse(bytes.begin(), bytes.end());
    return static_cast<double>(std::bit_cast<Value>(bytes));
  }
};

// Calls use(reader); reader(p) returns the number at p.
template <class Use>
auto with_reader(const Hdf5Number& type, const Use& use) {
  const auto reader = [&]<class Value>(Value) { return use(Reader<Value>{type.big_endian}); };
  const auto of_size = [&]<class A, class B, class C, class D>(A a, B b, C c, D d) {
    if (type.bytes == 1) return reader(a);
    if (type.bytes == 2) return reader(b);
    if (type.bytes == 4) return reader(c);
    if (type.bytes == 8) return reader(d);
    throw InternalError(fmt::format("a number of {} bytes is not supported", type.bytes));
  };
  switch (type.kind) {
    case Hdf5Number::Kind::kUnsigned:
      return of_size(uint8_t{}, uint16_t{}, uint32_t{}, uint64_t{});
    case Hdf5Number::Kind::kSigned:
      return of_size(int8_t{}, int16_t{}, int32_t{}, int64_t{});
    case Hdf5Number::Kind::kFloat:
      if (type.bytes == 1) break;
      return of_size(uint8_t{}, Half{}, float{}, double{});
  }
  throw InternalError(fmt::format("a float of {} bytes is not supported", type.bytes));
}

// Returns the checksum of HDF5: Fletcher's over big-endian words of 16 bits, the last one padded
// with zeros.
uint32_t fletcher32(std::span<const std::byte> bytes) {
  const auto fold = [](uint64_t sum) {
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
  };
  uint64_t first = 0, second = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const auto high = std::to_integer<uint64_t>(bytes[i]);
    const auto low = i + 1 < bytes.size() ? std::to_integer<uint64_t>(bytes[i + 1]) : 0;
    first += high << 8 | low;
    second += first;
    if (i % 512 == 510) first = fold(first), second = fold(second);
  }
  return static_cast<uint32_t>(fold(second) << 16 | fold(first));
}

// Reverses shuffle, which groups byte k of all elements; bytes of no whole element stay at the end.
void unshuffle(std::span<const std::byte> from, size_t element, std::byte* to) {
  const size_t count = from.size() / element, rest = count * element;
  for (size_t k = 0; k < element; ++k)
    for (size_t i = 0; i < count; ++i) to[i * element + k] = from[k * count + i];
  std::copy(from.begin() + static_cast<ptrdiff_t>(rest), from.end(), to + rest);
}

// Returns the number of bytes without the checksum. Throws DataError if it is wrong.
size_t without_checksum(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) throw DataError("it is too short for its checksum");
  const size_t count = bytes.size() - 4;
  uint32_t said = 0;
  std::memcpy(&said, bytes.data() + count, sizeof said);
  const uint32_t is = fletcher32(bytes.first(count));
  // HDF5 before 1.6.3 swapped the bytes of each half.
  const uint32_t old = (is & 0x00ff00ff) << 8 | (is >> 8 & 0x00ff00ff);
  if (said != is && said != old)
    throw DataError(fmt::format(
        "the fletcher32 checksum of its bytes is {:08x}, but {:08x} is stored", is, said));
  return count;
}

}  // namespace

std::string Hdf5Number::name() const {
  const char* kinds[] = {"uint", "int", "float"};
  return fmt::format("{}{}{}", big_endian && bytes > 1 ? "big-endian " : "",
                     kinds[static_cast<size_t>(kind)], 8 * bytes);
}

void read_numbers(const std::byte* from, const Hdf5Number& type, size_t count, double* to) {
  with_reader(type, [&](auto reader) {
    for (size_t i = 0; i < count; ++i) to[i] = reader(from + i * static_cast<size_t>(type.bytes));
  });
}

size_t to_pixels(const std::byte* from, const Hdf5Number& type, const PixelRange& range,
                 size_t count, uint8_t* to, ptrdiff_t stride) {
  const auto place = [&](size_t i) -> uint8_t& { return to[static_cast<ptrdiff_t>(i) * stride]; };
  const double low = range.low, high = range.high, scale = 255 / (high - low);
  if (type.kind == Hdf5Number::Kind::kUnsigned && type.bytes == 1 && low == 0 && high == 255) {
    if (stride == 1) {
      std::memcpy(to, from, count);
    } else {
      for (size_t i = 0; i < count; ++i) place(i) = static_cast<uint8_t>(from[i]);
    }
    return count;
  }
  return with_reader(type, [&](auto reader) {
    for (size_t i = 0; i < count; ++i) {
      const double value = reader(from + i * static_cast<size_t>(type.bytes));
      if (!(value >= low && value <= high)) return i;
      place(i) = static_cast<uint8_t>((value - low) * scale + 0.5);
    }
    return count;
  });
}

// --- filters --------------------------------------------------------------------------------

struct ChunkDecoder::Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
};

ChunkDecoder::ChunkDecoder(std::vector<Hdf5Filter> filters, size_t chunk_bytes)
    : filters_(std::move(filters)),
      chunk_bytes_(chunk_bytes),
      from_(std::make_unique_for_overwrite<std::byte[]>(max_stored(chunk_bytes))),
      to_(std::make_unique_for_overwrite<std::byte[]>(max_stored(chunk_bytes))) {
  for (const Hdf5Filter& filter : filters_)
    if (filter.kind == Hdf5Filter::Kind::kGzip && inflater_ == nullptr)
      inflater_ = std::make_unique<Inflater>();
}
ChunkDecoder::~ChunkDecoder() = default;

std::span<std::byte> ChunkDecoder::stored() { return {from_.get(), max_stored(chunk_bytes_)}; }

size_t ChunkDecoder::inflate(size_t count) {
  z_stream& stream = inflater_->stream;
  const size_t capacity = max_stored(chunk_bytes_);
  inflateReset(&stream);
  stream.next_in = reinterpret_cast<Bytef*>(from_.get());
  stream.avail_in = static_cast<uInt>(count);
  stream.next_out = reinterpret_cast<Bytef*>(to_.get());
  stream.avail_out = static_cast<uInt>(capacity);
  const int result = ::inflate(&stream, Z_FINISH);
  if (result == Z_STREAM_END) return capacity - stream.avail_out;
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (stream.avail_out == 0) throw DataError("its gzip data are longer than the chunk");
  throw DataError(fmt::format("its gzip data are damaged ({})",
                              stream.msg != nullptr ? stream.msg : "they end too early"));
}

std::span<const std::byte> ChunkDecoder::decode(size_t count, uint32_t skipped) {
  for (size_t i = filters_.size(); i-- > 0;) {
    if ((skipped >> i & 1) != 0) continue;
    switch (filters_[i].kind) {
      case Hdf5Filter::Kind::kFletcher32:
        count = without_checksum({from_.get(), count});
        continue;
      case Hdf5Filter::Kind::kShuffle:
        if (filters_[i].element_bytes <= 1) continue;
        unshuffle({from_.get(), count}, filters_[i].element_bytes, to_.get());
        break;
      case Hdf5Filter::Kind::kGzip:
        count = inflate(count);
        break;
    }
    std::swap(from_, to_);
  }
  if (count != chunk_bytes_)
    throw DataError(fmt::format("it decodes to {} bytes, but must have {}", count, chunk_bytes_));
  return {from_.get(), count};
}

// --- boxes ----------------------------------------------------------------------------------

void for_each_run(std::span<const BoxAxis> axes,
                  const std::function<void(int64_t, int64_t, int64_t, int64_t)>& run) {
  // Merges outer axes that continue where the inner one ends.
  std::array<BoxAxis, kMaxAxes> merged;
  size_t most = merged.size() - 1, first = most;
  merged[most] = axes.back();
  for (size_t i = axes.size() - 1; i-- > 0;) {
    BoxAxis& inner = merged[first];
    const bool goes_on =
        axes[i].from == inner.count * inner.from && axes[i].to == inner.count * inner.to;
    if (goes_on) {
      inner.count *= axes[i].count;
    } else {
      merged[--first] = axes[i];
    }
  }
  std::array<int64_t, kMaxAxes> at{};
  const BoxAxis& last = merged[most];
  for (const BoxAxis& axis : merged)
    if (&axis >= &merged[first] && axis.count == 0) return;
  while (true) {
    int64_t from = 0, to = 0;
    for (size_t i = first; i < most; ++i) {
      from += at[i] * merged[i].from;
      to += at[i] * merged[i].to;
    }
    run(from, to, last.count, last.to);
    size_t i = most;
    while (i > first && ++at[i - 1] == merged[i - 1].count) at[--i] = 0;
    if (i == first) return;
  }
}

}  // namespace tessera
