// Any stored bytes, in data sets of any type, shape, chunks, filters and order, are refused with a
// DataError, or give the pixels and labels of a slow reader of single values. libhdf5 does not run
// here: arrays replace it.
//
//   4 bytes    rank (3 or 4), layout, range, test_fraction; cache; damage; readers
//   twice      a data set, images and then labels: type, filters, storage, extents, chunk extents
//   then       the values, over and over again; if `damage` says so, the stored bytes instead
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <zlib.h>

#include "tessera/models/data/sets/hdf5_set.h"
#include "tessera/runtime/error.h"

namespace {

using namespace tessera;
using Bytes = std::vector<std::byte>;
using Kind = Hdf5Number::Kind;

class Input {
 public:
  Input(const uint8_t* bytes, size_t size) : bytes_(bytes), size_(size) {}
  unsigned next() { return at_ < size_ ? bytes_[at_++] : 0; }
  unsigned below(unsigned most) { return next() % most; }
  // Returns the remaining bytes, repeated.
  Bytes fill(size_t count) {
    Bytes all(count);
    for (size_t i = 0; i < count && at_ < size_; ++i)
      all[i] = std::byte{bytes_[at_ + i % (size_ - at_)]};
    return all;
  }

 private:
  const uint8_t* bytes_;
  size_t size_, at_ = 0;
};

int64_t product(const std::vector<int64_t>& extents) {
  int64_t all = 1;
  for (int64_t extent : extents) all *= extent;
  return all;
}

// --- chunks as HDF5 writes them ------------------------------------------------------------------

void shuffle(Bytes& bytes, size_t element) {
  if (element <= 1) return;
  const Bytes from = bytes;
  const size_t count = from.size() / element;
  for (size_t i = 0; i < count * element; ++i) bytes[i % element * count + i / element] = from[i];
}

void append_fletcher32(Bytes& bytes) {
  uint64_t first = 0, second = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const unsigned low = i + 1 < bytes.size() ? std::to_integer<unsigned>(bytes[i + 1]) : 0;
    first += std::to_integer<unsigned>(bytes[i]) * 256 + low;
    first = first > 65535 ? first - 65535 : first;
    second += first;
    second = second > 65535 ? second - 65535 : second;
  }
  for (uint64_t half : {first, second})
    for (int shift : {0, 8}) bytes.push_back(static_cast<std::byte>(half >> shift));
}

void gzip(Bytes& bytes) {
  uLongf size = compressBound(bytes.size());
  Bytes packed(size);
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 1) != Z_OK)
    std::abort();
  packed.resize(size);
  bytes = packed;
}

// --- arrays in place of libhdf5 ------------------------------------------------------------------

class Array final : public Hdf5Data {
 public:
  Array(Hdf5DataInfo info, Bytes values, unsigned damage, Bytes stored)
      : Hdf5Data(std::move(info)),
        values_(std::move(values)),
        damage_(damage),
        stored_(std::move(stored)) {}

  size_t read_chunk(std::span<const int64_t> first, std::span<std::byte> to,
                    uint32_t& skipped) const override {
    const auto& shape = info().shape;
    const auto& chunk = info().chunk;
    if (first.size() != shape.size()) std::abort();
    for (size_t i = 0; i < shape.size(); ++i)
      if (first[i] < 0 || first[i] >= shape[i] || first[i] % chunk[i] != 0) std::abort();
    skipped = damage_ >> 4 & 7;
    Bytes bytes = (damage_ & 1) != 0 ? stored_ : encoded(first, skipped);
    if ((damage_ & 2) != 0 && !bytes.empty()) bytes[damage_ % bytes.size()] ^= std::byte{64};
    if ((damage_ & 4) != 0) bytes.resize(bytes.size() / 2);
    if (bytes.size() > to.size()) throw DataError("it is too long");
    std::copy(bytes.begin(), bytes.end(), to.begin());
    return bytes.size();
  }

  void read_rows(int64_t first, int64_t count, std::span<std::byte> to) const override {
    const size_t row = values_.size() / static_cast<size_t>(info().shape[0]);
    if (first < 0 || count < 1 || first + count > info().shape[0]) std::abort();
    if (to.size() != row * static_cast<size_t>(count)) std::abort();
    std::memcpy(to.data(), values_.data() + row * static_cast<size_t>(first), to.size());
  }

  // Returns the number at `index`, decoded bit by bit.
  double at(int64_t index) const {
    const Hdf5Number& type = info().type;
    const auto bytes = static_cast<size_t>(type.bytes);
    uint64_t bits = 0;
    for (size_t i = 0; i < bytes; ++i) {
      const size_t from = type.big_endian ? i : bytes - 1 - i;
      bits =
          bits << 8 | std::to_integer<uint64_t>(values_[static_cast<size_t>(index) * bytes + from]);
    }
    const size_t all = 8 * bytes;
    const bool top = (bits >> (all - 1) & 1) != 0;
    if (type.kind == Kind::kUnsigned) return static_cast<double>(bits);
    if (type.kind == Kind::kSigned)
      return static_cast<double>(static_cast<int64_t>(bits << (64 - all)) >> (64 - all));
    const int mantissa = bytes == 2 ? 10 : bytes == 4 ? 23 : 52;
    const int most = (1 << (static_cast<int>(all) - 1 - mantissa)) - 1;
    const int exponent = static_cast<int>(bits >> mantissa) & most;
    const auto fraction = static_cast<double>(bits & ((uint64_t{1} << mantissa) - 1));
    const double one = std::ldexp(1.0, mantissa), sign = top ? -1 : 1;
    if (exponent == most) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
    return sign * std::ldexp(exponent == 0 ? fraction : one + fraction,
                             std::max(exponent, 1) - most / 2 - mantissa);
  }

  bool is_sound() const { return damage_ == 0 || info().chunk.empty(); }

 private:
  Bytes encoded(std::span<const int64_t> first, uint32_t skipped) const {
    const auto& shape = info().shape;
    const auto& chunk = info().chunk;
    const auto size = static_cast<size_t>(info().type.bytes);
    Bytes bytes(static_cast<size_t>(product(chunk)) * size, std::byte{0xee});
    for (int64_t i = 0; i < product(chunk); ++i) {
      int64_t rest = i, from = 0, stride = 1;
      bool inside = true;
      for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
        const int64_t at = first[d] + rest % chunk[d];
        rest /= chunk[d];
        inside = inside && at < shape[d];
        from += at * stride;
      }
      if (inside)
        std::memcpy(&bytes[static_cast<size_t>(i) * size],
                    &values_[static_cast<size_t>(from) * size], size);
    }
    for (size_t i = 0; i < info().filters.size(); ++i) {
      if ((skipped >> i & 1) != 0) continue;
      const Hdf5Filter& filter = info().filters[i];
      if (filter.kind == Hdf5Filter::Kind::kShuffle) shuffle(bytes, filter.element_bytes);
      if (filter.kind == Hdf5Filter::Kind::kFletcher32) append_fletcher32(bytes);
      if (filter.kind == Hdf5Filter::Kind::kGzip) gzip(bytes);
    }
    return bytes;
  }

  const Bytes values_;
  const unsigned damage_;
  const Bytes stored_;
};

Hdf5DataInfo info_from(Input& in, std::vector<int64_t> shape) {
  Hdf5DataInfo info;
  info.file = "fuzz.h5";
  info.path = "/x";
  info.shape = std::move(shape);
  info.type.kind = static_cast<Kind>(in.below(3));
  info.type.bytes = 1 << in.below(4);
  info.type.big_endian = in.below(2) == 1;
  if (info.type.kind == Kind::kFloat) info.type.bytes = std::max(info.type.bytes, 2);
  if (in.below(4) == 0) return info;  // contiguous
  for (int64_t extent : info.shape)
    info.chunk.push_back(1 + in.below(static_cast<unsigned>(extent) + 3));
  for (unsigned i = in.below(4); i-- > 0;)
    info.filters.push_back({static_cast<Hdf5Filter::Kind>(in.below(3)), 1 + in.below(9)});
  return info;
}

// --- expected results ----------------------------------------------------------------------------

class Expected {
 public:
  Expected(const Array& images, const Hdf5Source& source)
      : images_(images), layout_(source.layout) {
    const bool is_float = images.info().type.kind == Kind::kFloat;
    low_ = source.range.empty() ? 0 : source.range[0];
    high_ = source.range.empty() ? (is_float ? 1 : 255) : source.range[1];
    if (images.info().shape.size() == 3) layout_.erase(layout_.find('c'), 1);
  }

  double value(int64_t image, int y, int x, int c) const {
    const auto& shape = images_.info().shape;
    int64_t at = image;
    for (size_t d = 1; d < shape.size(); ++d) {
      const char dim = layout_[d - 1];
      at = at * shape[d] + (dim == 'h' ? y : dim == 'w' ? x : c);
    }
    return images_.at(at);
  }
  bool is_inside(double value) const { return value >= low_ && value <= high_; }
  void check(int64_t image, const ImageShape& shape, const uint8_t* pixels) const {
    for (int y = 0; y < shape.height; ++y)
      for (int x = 0; x < shape.width; ++x)
        for (int c = 0; c < shape.channels; ++c) {
          const double v = value(image, y, x, c);
          if (!is_inside(v)) std::abort();
          const double want = std::floor((v - low_) * (255 / (high_ - low_)) + 0.5);
          if (*pixels++ != want) std::abort();
        }
  }
  // Returns true if all values are in the range of the source.
  bool all_inside() const {
    for (int64_t i = 0; i < product(images_.info().shape); ++i)
      if (!is_inside(images_.at(i))) return false;
    return true;
  }

 private:
  const Array& images_;
  std::string layout_;
  double low_ = 0, high_ = 1;
};

// Returns the indices of the training images and of the test images, which are the last of each
// class.
std::array<std::vector<int64_t>, 2> cut(const std::vector<int64_t>& labels, double part) {
  std::array<std::vector<int64_t>, 2> numbers;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto all = std::count(labels.begin(), labels.end(), labels[i]);
    const auto before =
        std::count(labels.begin(), labels.begin() + static_cast<long>(i), labels[i]);
    const auto test = std::min<long>(std::lround(static_cast<double>(all) * part), all - 1);
    numbers[before >= all - test].push_back(static_cast<int64_t>(i));
  }
  return numbers;
}

// Reads every image. Damaged labels may be other labels.
void read_all(const DataSplit& data) {
  std::vector<uint8_t> pixels(static_cast<size_t>(data.train->shape().bytes()));
  for (const Dataset* set : {data.train.get(), data.test.get()})
    for (int64_t i = 0; i < set->count(); ++i) {
      if (set->label(i) < 0 || set->label(i) >= set->classes()) std::abort();
      try {
        set->read(i, pixels.data());
      } catch (const DataError&) {
      }
    }
}

void check(const DataSplit& data, const Array& images, const Array& labels,
           const Hdf5Source& source) {
  const Expected expected(images, source);
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < images.info().shape[0]; ++i)
    classes.push_back(static_cast<int64_t>(labels.at(i)));
  const auto numbers = cut(classes, source.test_fraction);
  const bool must_read = images.is_sound() && expected.all_inside();
  std::vector<uint8_t> pixels(static_cast<size_t>(data.train->shape().bytes()));
  for (size_t test = 0; test < 2; ++test) {
    const Dataset& set = test != 0 ? *data.test : *data.train;
    if (set.count() != static_cast<int64_t>(numbers[test].size())) std::abort();
    for (int64_t i = 0; i < set.count(); ++i) {
      const int64_t number = numbers[test][static_cast<size_t>(i)];
      if (set.label(i) != classes[static_cast<size_t>(number)]) std::abort();
      try {
        set.read(i, pixels.data());
      } catch (const DataError&) {
        if (must_read) std::abort();
        continue;
      }
      if (images.is_sound()) expected.check(number, set.shape(), pixels.data());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  Input in(bytes, size);
  Hdf5Source source;
  source.images = source.labels = "/x";
  const unsigned rank = 3 + in.below(2);
  source.layout = std::array{"hwc", "chw", "cwh"}[in.below(3)];
  const std::vector<double> ranges[] = {{}, {-1, 1}, {0, 65535}, {-1e308, 1e-300}, {-HUGE_VAL, 0}};
  source.range = ranges[in.below(5)];
  if (!source.range.empty() && find_problem(source)) return 0;
  source.test_fraction = 1.0 / (2 + in.below(8));
  source.cache = 1 + 64 * static_cast<int64_t>(in.next());
  const unsigned damage_images = in.next() % 4 == 0 ? in.next() : 0;
  const unsigned damage_labels = in.next() % 8 == 0 ? in.next() : 0;
  const int readers = 1 + static_cast<int>(in.below(3));
  std::vector<int64_t> shape;
  for (unsigned i = 0; i < rank; ++i) shape.push_back(1 + in.below(6));
  if (rank == 4) (in.below(2) == 0 ? shape[1] : shape[3]) = in.below(2) == 0 ? 1 : 3;
  Hdf5DataInfo of_images = info_from(in, shape);
  const std::vector<int64_t> columns[] = {{shape[0]}, {shape[0], 1}, {1, shape[0]}, {shape[0], 2}};
  Hdf5DataInfo of_labels = info_from(in, columns[in.below(4)]);
  Bytes classes(static_cast<size_t>(product(of_labels.shape)) *
                static_cast<size_t>(of_labels.type.bytes));
  const bool small = in.next() % 8 != 0;  // mostly labels that are classes
  if (small) {
    const auto width = static_cast<size_t>(of_labels.type.bytes);
    if (of_labels.type.kind == Kind::kFloat) of_labels.type.kind = Kind::kSigned;
    for (size_t i = 0; i < classes.size(); i += width)
      classes[i + (of_labels.type.big_endian ? width - 1 : 0)] =
          static_cast<std::byte>(in.below(4));
  } else {
    classes = in.fill(classes.size());
  }
  Bytes values =
      in.fill(static_cast<size_t>(product(shape)) * static_cast<size_t>(of_images.type.bytes));
  const Bytes stored = in.fill(in.next());
  const auto images = std::make_shared<Array>(of_images, values, damage_images, stored);
  const auto labels = std::make_shared<Array>(of_labels, classes, damage_labels, stored);
  try {
    const DataSplit data = make_hdf5_set({images, labels}, {}, source, readers);
    if (labels->is_sound())
      check(data, *images, *labels, source);
    else
      read_all(data);
  } catch (const DataError&) {
  }
  return 0;
}
