#include "tessera/models/data/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/data/formats/hdf5_chunk.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

static_assert(std::endian::native == std::endian::little);
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kMaxDimensions = 8;
constexpr char kMetadata[] = "__metadata__";

std::string in_quotes(const std::string& name) {
  constexpr size_t kMax = 120;
  const std::string text = utf8_printable(name);
  if (text.size() <= kMax) return fmt::format("'{}'", text);
  return fmt::format("'{}...'", text.substr(0, utf8_start(text, kMax)));
}

struct Type {
  const char *name, *ours;
  uint64_t bytes;
};
constexpr Type kTypes[] = {
    {"BOOL", "bool", 1},     {"U8", "uint8", 1},   {"I8", "int8", 1},     {"F8_E5M2", "", 1},
    {"F8_E4M3", "", 1},      {"I16", "int16", 2},  {"U16", "uint16", 2},  {"F16", "float16", 2},
    {"BF16", "bfloat16", 2}, {"I32", "int32", 4},  {"U32", "uint32", 4},  {"F32", "float32", 4},
    {"I64", "int64", 8},     {"U64", "uint64", 8}, {"F64", "float64", 8}, {"C64", "", 8}};

// Returns the size of an element; 0 for an unknown dtype.
uint64_t bytes_of(const std::string& dtype) {
  for (const Type& type : kTypes)
    if (dtype == type.name) return type.bytes;
  return 0;
}

// Sets the bytes of a tensor to write. Throws Error if it is invalid.
void check_writable(SafeTensor& tensor) {
  if (tensor.name.empty() || tensor.name == kMetadata)
    throw Error(fmt::format("{} cannot be the name of a tensor", in_quotes(tensor.name)));
  tensor.bytes = bytes_of(tensor.dtype);
  bool fits = tensor.shape.size() <= kMaxDimensions;
  for (const int64_t extent : tensor.shape)
    fits = fits && extent >= 0 &&
           !__builtin_mul_overflow(tensor.bytes, static_cast<uint64_t>(extent), &tensor.bytes);
  if (!fits || bytes_of(tensor.dtype) == 0)
    throw Error(fmt::format("{} cannot be written as {} [{}]", in_quotes(tensor.name), tensor.dtype,
                            fmt::join(tensor.shape, "x")));
}

// Makes tensors of the header's JSON events. depth_ is the number of open objects and lists: 1 in
// the header's object, 2 in a tensor's, 3 in its shape or offsets.
class Header final : public JsonListener {
 public:
  void begin_object() override {
    if (depth_ >= 2) fail(fmt::format("{} must not be an object", where()));
    if (depth_++ == 1 && !in_metadata()) tensor_ = SafeTensor{name_, "", {}, 0, 0}, given_ = {};
  }

  void name(const std::string& name) override {
    if (depth_ == 2) {
      member_ = name;
      if (in_metadata()) return;
      const auto known = std::find(kMembers.begin(), kMembers.end(), name);
      if (known == kMembers.end())
        fail(fmt::format("{} has the member {}, which is not one of {}", where_tensor(),
                         in_quotes(name), fmt::join(kMembers, ", ")));
      bool& given = given_[static_cast<size_t>(known - kMembers.begin())];
      if (given) fail(fmt::format("{} has '{}' twice", where_tensor(), name));
      given = true;
      return;
    }
    if (name != kMetadata) {
      name_ = name;
      return;
    }
    if (std::exchange(has_metadata_, true)) fail(fmt::format("'{}' occurs twice", kMetadata));
    name_ = name;
  }

  void end_object() override {
    if (--depth_ != 1 || in_metadata()) return;
    for (size_t i = 0; i < kMembers.size(); ++i)
      if (!given_[i]) fail(fmt::format("{} has no '{}'", where_tensor(), kMembers[i]));
    finish_tensor();
  }

  void begin_list() override {
    if (depth_ != 2 || in_metadata() || member_ == "dtype")
      fail(fmt::format("{} must not be a list", where()));
    ++depth_;
    numbers_.clear();
  }

  void end_list() override {
    --depth_;
    if (member_ == "data_offsets") {
      if (numbers_.size() != 2)
        fail(fmt::format("{} must have 2 numbers, but has {}", where(), numbers_.size()));
      begin_ = numbers_[0], end_ = numbers_[1];
      return;
    }
    tensor_.shape.assign(numbers_.begin(), numbers_.end());
  }

  void text(const std::string& text) override {
    if (depth_ == 2 && in_metadata()) {
      contents.metadata.emplace_back(member_, text);
    } else if (depth_ == 2 && member_ == "dtype") {
      tensor_.dtype = text;
    } else {
      fail(fmt::format("{} must not be a string", where()));
    }
  }

  void whole(uint64_t number) override {
    if (depth_ != 3) fail(fmt::format("{} must not be a number", where()));
    if (number > uint64_t{INT64_MAX})
      fail(fmt::format("{}: {} exceeds the size of any file", where(), number));
    if (numbers_.size() == kMaxDimensions)
      fail(fmt::format("{} has more than {} numbers", where(), kMaxDimensions));
    numbers_.push_back(number);
  }

  void other(const char* kind) override { fail(fmt::format("{} must not be {}", where(), kind)); }

  SafetensorsContents contents;

 private:
  static constexpr std::array<const char*, 3> kMembers = {"dtype", "shape", "data_offsets"};

  [[noreturn]] static void fail(const std::string& why) { throw SafetensorsError(why); }
  bool in_metadata() const { return name_ == kMetadata; }
  std::string where_tensor() const { return "tensor " + in_quotes(name_); }
  std::string where() const {
    if (depth_ == 0) return "the header";
    if (depth_ == 1) return in_metadata() ? in_quotes(kMetadata) : where_tensor();
    return fmt::format("{} of {}", in_quotes(member_), in_metadata() ? kMetadata : where_tensor());
  }

  void finish_tensor() {
    const uint64_t size = bytes_of(tensor_.dtype);
    if (size == 0)
      fail(fmt::format("{} has the dtype {}, which is not supported; convert the file to float32",
                       where_tensor(), in_quotes(tensor_.dtype)));
    if (begin_ > end_)
      fail(fmt::format("{} ends at {}, before its beginning at {}", where_tensor(), end_, begin_));
    uint64_t count = 1;
    for (const int64_t extent : tensor_.shape)
      if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
        fail(fmt::format("{} has more elements than can be counted", where_tensor()));
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes != end_ - begin_)
      fail(fmt::format("{}, {} [{}], does not match its {} bytes from {} to {}", where_tensor(),
                       tensor_.dtype, fmt::join(tensor_.shape, "x"), end_ - begin_, begin_, end_));
    tensor_.offset = begin_, tensor_.bytes = bytes;
    contents.tensors.push_back(std::move(tensor_));
  }

  int depth_ = 0;
  std::string name_, member_;
  bool has_metadata_ = false;
  SafeTensor tensor_;
  std::array<bool, 3> given_ = {};
  std::vector<uint64_t> numbers_;
  uint64_t begin_ = 0, end_ = 0;
};

std::string header_of(const ByteSource& file) {
  if (file.size() < kLengthBytes)
    throw SafetensorsError(
        fmt::format("it has only {} bytes, too few for the length of the header", file.size()));
  uint64_t length = 0;
  file.read(0, &length, kLengthBytes);
  const uint64_t behind = file.size() - kLengthBytes;
  if (length > kMaxHeader)
    throw SafetensorsError(fmt::format(
        "its header would have {} bytes, but the format allows at most {}", length, kMaxHeader));
  if (length > behind)
    throw SafetensorsError(fmt::format(
        "its header has {} bytes, but only {} bytes follow the length: the file is truncated",
        length, behind));
  std::string header(static_cast<size_t>(length), ' ');
  file.read(kLengthBytes, header.data(), header.size());
  if (!header.starts_with('{')) throw SafetensorsError("its header does not begin with '{'");
  return header;
}

// Throws unless every byte after the header belongs to exactly one tensor. `tensors`: in the order
// of their offsets, which count from there.
void check_places(const std::vector<SafeTensor>& tensors, uint64_t behind) {
  uint64_t at = 0;
  const SafeTensor* before = nullptr;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.offset < at)
      throw SafetensorsError(fmt::format("tensors {} and {} overlap", in_quotes(before->name),
                                         in_quotes(tensor.name)));
    if (tensor.offset > at)
      throw SafetensorsError(fmt::format("tensor {} is preceded by {} unused bytes",
                                         in_quotes(tensor.name), tensor.offset - at));
    at += tensor.bytes;
    if (at > behind)
      throw SafetensorsError(
          fmt::format("tensor {} ends at byte {} after the header, but the file has only {} bytes "
                      "there: it is truncated",
                      in_quotes(tensor.name), at, behind));
    before = &tensor;
  }
  if (at < behind)
    throw SafetensorsError(
        fmt::format("{} bytes after its last tensor belong to no tensor", behind - at));
}

}  // namespace

uint64_t SafeTensor::elements() const { return bytes / std::max<uint64_t>(1, bytes_of(dtype)); }

SafetensorsContents read_safetensors(const ByteSource& file) {
  Header header;
  const std::string text = header_of(file);
  try {
    read_json(text, header);
  } catch (const SafetensorsError&) {
    throw;
  } catch (const Error& error) {
    throw SafetensorsError(fmt::format("its header is not JSON: {}", error.what()));
  }
  const uint64_t front = kLengthBytes + text.size();
  SafetensorsContents& contents = header.contents;
  std::vector<SafeTensor>& tensors = contents.tensors;
  // An empty tensor comes before one with the same offset.
  std::ranges::sort(tensors, [](const SafeTensor& a, const SafeTensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  check_places(tensors, file.size() - front);
  for (SafeTensor& tensor : tensors) tensor.offset += front;
  std::ranges::sort(tensors, {}, &SafeTensor::name);
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const SafeTensor& a, const SafeTensor& b) { return a.name == b.name; });
  if (twice != tensors.end())
    throw SafetensorsError(fmt::format("tensor {} occurs twice", in_quotes(twice->name)));
  std::ranges::sort(contents.metadata);
  return std::move(contents);
}

bool is_fractional(const std::string& dtype) {
  return dtype == "F64" || dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

void read_values(const ByteSource& file, const SafeTensor& tensor, uint64_t first,
                 std::span<double> to) {
  constexpr size_t kPart = 4096;
  std::array<std::byte, kPart> bytes;
  const uint64_t size = bytes_of(tensor.dtype);
  for (size_t done = 0; done < to.size();) {
    const size_t count = std::min(to.size() - done, kPart / static_cast<size_t>(size));
    file.read(tensor.offset + (first + done) * size, bytes.data(), count * size);
    if (tensor.dtype != "BF16") {
      read_numbers(bytes.data(), {Hdf5Number::Kind::kFloat, static_cast<int>(size)}, count,
                   &to[done]);
    } else {
      for (size_t i = 0; i < count; ++i) {
        uint16_t upper = 0;  // half of a float
        std::memcpy(&upper, &bytes[i * size], sizeof upper);
        to[done + i] = static_cast<double>(std::bit_cast<float>(uint32_t{upper} << 16));
      }
    }
    done += count;
  }
}

ArraySpec SafeTensor::spec() const {
  for (const Type& type : kTypes)
    if (dtype == type.name && *type.ours != 0) return {name, type.ours, shape};
  return {name, dtype, shape};
}

SafeTensor safe_tensor(const ArraySpec& array) {
  for (const Type& type : kTypes)
    if (array.dtype == type.ours) return {array.name, type.name, array.shape, 0, 0};
  return {array.name, array.dtype, array.shape, 0, 0};
}

std::string safetensors_front(std::vector<SafeTensor>& tensors,
                              const SafetensorsMetadata& metadata) {
  std::vector<Json::Member> members;
  if (!metadata.empty()) {
    const std::vector<Json::Member> texts(metadata.begin(), metadata.end());
    members.emplace_back(kMetadata, Json::object(texts));
  }
  std::set<std::string> names;
  std::vector<SafeTensor*> order;
  for (SafeTensor& tensor : tensors) {
    check_writable(tensor);
    if (!names.insert(tensor.name).second)
      throw Error(fmt::format("the name {} is given twice", in_quotes(tensor.name)));
    order.push_back(&tensor);
  }
  std::ranges::stable_sort(order, [](const SafeTensor* a, const SafeTensor* b) {
    return bytes_of(a->dtype) > bytes_of(b->dtype);
  });
  uint64_t at = 0;
  for (SafeTensor* tensor : order) {
    tensor->offset = at;
    at += tensor->bytes;
    members.emplace_back(tensor->name,
                         Json::object({{"dtype", tensor->dtype},
                                       {"shape", Json::list_of(tensor->shape)},
                                       {"data_offsets", Json::list({tensor->offset, at})}}));
  }
  std::string header = Json::object(members).text();
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const uint64_t length = header.size();
  std::string front(kLengthBytes, '\0');
  std::memcpy(front.data(), &length, kLengthBytes);
  for (SafeTensor& tensor : tensors) tensor.offset += front.size() + header.size();
  return front + header;
}

}  // namespace tessera
