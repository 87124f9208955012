#include "tessera/models/data/formats/hdf5_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/error.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "values are copied as they are");

namespace {

constexpr uint64_t kUndefined = ~uint64_t{0};
constexpr size_t kSuperblockBytes = 96, kHeapHeaderBytes = 32, kTreeHalf = 16;
constexpr size_t kTreeBytes = 24 + (2 * kTreeHalf + 1) * 8 + 2 * kTreeHalf * 8;
constexpr size_t kEntryBytes = 40, kNodeHeaderBytes = 8;
constexpr size_t kDataAlignment = 64;

size_t aligned(size_t at, size_t to = 8) { return (at + to - 1) / to * to; }

// A piece of the file in the making.
class Piece {
 public:
  template <class T>
  Piece& put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  Piece& u8(unsigned value) { return put(static_cast<uint8_t>(value)); }
  Piece& u16(size_t value) { return put(static_cast<uint16_t>(value)); }
  Piece& u32(size_t value) { return put(static_cast<uint32_t>(value)); }
  Piece& u64(uint64_t value) { return put(value); }
  Piece& text(const std::string& value) {
    bytes_ += value;
    return *this;
  }
  Piece& zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  Piece& align() { return zeros(aligned(bytes_.size()) - bytes_.size()); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

void place_piece(std::span<std::byte> image, size_t at, const std::string& bytes) {
  std::memcpy(image.data() + at, bytes.data(), bytes.size());
}

Piece float_type(size_t size) {
  const bool single = size == 4;
  Piece type;
  type.u8(0x11).u8(0x20).u8(single ? 31 : 63).u8(0).u32(size);  // class 1; implied first bit; sign
  type.u16(0).u16(size * 8);                                    // first bit, bits
  type.u8(single ? 23 : 52).u8(single ? 8 : 11);                // exponent: place, bits
  type.u8(0).u8(single ? 23 : 52).u32(single ? 127 : 1023);     // mantissa: place, bits; bias
  return type;
}

Piece integer_type(size_t size, bool has_sign) {
  Piece type;
  type.u8(0x10).u8(has_sign ? 0x08 : 0).u16(0).u32(size).u16(0).u16(size * 8);
  return type;
}

// Padded with zeros, UTF-8.
Piece text_type(size_t size) {
  Piece type;
  type.u8(0x13).u8(0x11).u16(0).u32(size);
  return type;
}

Piece type_of(const ArraySpec& array) {
  if (array.dtype == "text") return text_type(static_cast<size_t>(array.shape[0]));
  if (array.dtype.starts_with("float")) return float_type(hdf5_size_of(array.dtype));
  return integer_type(hdf5_size_of(array.dtype), array.dtype[0] == 'i');
}

Piece space_of(const std::vector<int64_t>& shape) {
  Piece space;
  space.u8(1).u8(static_cast<unsigned>(shape.size())).zeros(6);
  for (int64_t extent : shape) space.u64(static_cast<uint64_t>(extent));
  return space;
}

// Version 1: the messages one behind the other.
class ObjectHeader {
 public:
  void add(unsigned kind, Piece body) {
    body.align();
    messages_.u16(kind).u16(body.bytes().size()).u8(0).zeros(3).text(body.bytes());
    ++count_;
  }
  std::string bytes() const {
    Piece header;
    header.u8(1).u8(0).u16(count_).u32(1).u32(messages_.bytes().size()).zeros(4);
    return header.text(messages_.bytes()).bytes();
  }

 private:
  Piece messages_;
  size_t count_ = 0;
};

std::string array_header(const ArraySpec& array, size_t offset, size_t bytes) {
  ObjectHeader header;
  header.add(1, space_of(array.dtype == "text" ? std::vector<int64_t>() : array.shape));
  header.add(3, type_of(array));
  header.add(5, Piece().u8(2).u8(1).u8(2).u8(1).u32(0));  // allocated early, the usual fill value
  header.add(8, Piece().u8(3).u8(1).u64(bytes ? offset : kUndefined).u64(bytes));  // contiguous
  return header.bytes();
}

Piece attribute_message(const Hdf5Attribute& attribute) {
  const bool is_text = !attribute.text.empty();
  Piece type = is_text ? text_type(attribute.text.size()) : integer_type(4, true),
        space = space_of({});
  Piece message;
  message.u8(1).u8(0).u16(attribute.name.size() + 1);
  message.u16(type.bytes().size()).u16(space.bytes().size());
  message.text(attribute.name).u8(0).align();
  message.text(type.align().bytes()).text(space.bytes());
  return is_text ? message.text(attribute.text) : message.put(attribute.number);
}

void check(const ArraySpec& array) {
  auto need = [&](bool holds, const std::string& text) {
    if (!holds) throw Error(fmt::format("'{}' {}", array.name, text));
  };
  const size_t slash = array.name.find('/');
  for (const std::string& part : {array.name.substr(0, slash),
                                  slash == std::string::npos ? "a" : array.name.substr(slash + 1)})
    need(!part.empty() && part != "." && part != ".." && part.find('/') == std::string::npos &&
             part.find('\0') == std::string::npos,
         "cannot be the name of an array");
  const bool is_text = array.dtype == "text";
  need(is_text ? array.shape.size() == 1 && array.shape[0] > 0 : hdf5_size_of(array.dtype) > 0,
       fmt::format("has dtype {} [{}]; float32, float64, uint8, int32, int64 and texts can be "
                   "written",
                   array.dtype, fmt::join(array.shape, "x")));
  constexpr uint64_t kMax = uint64_t{1} << 48;
  uint64_t bytes = hdf5_size_of(array.dtype);
  for (int64_t extent : array.shape) {
    need(extent >= 0 && array.shape.size() <= 32 &&
             (extent == 0 || bytes <= kMax / static_cast<uint64_t>(extent)),
         fmt::format("has the shape [{}]", fmt::join(array.shape, "x")));
    bytes *= static_cast<uint64_t>(extent);
  }
}

}  // namespace

size_t hdf5_size_of(const std::string& dtype) {
  if (dtype == "float32" || dtype == "int32") return 4;
  if (dtype == "float64" || dtype == "int64") return 8;
  return dtype == "uint8" || dtype == "text" ? 1 : 0;
}

Hdf5Layout::Hdf5Layout(std::vector<ArraySpec> arrays, std::vector<Hdf5Attribute> attributes)
    : arrays_(std::move(arrays)), attributes_(std::move(attributes)) {
  for (const ArraySpec& array : arrays_) check(array);
  make_groups();
  place();
}

size_t Hdf5Layout::array_bytes(size_t i) const {
  size_t bytes = hdf5_size_of(arrays_[i].dtype);
  for (int64_t extent : arrays_[i].shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

void Hdf5Layout::make_groups() {
  groups_.resize(1);
  std::vector<std::string> names;  // of the groups, from 1 on
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const std::string& name = arrays_[i].name;
    const size_t slash = name.find('/');
    size_t group = 0;
    if (slash != std::string::npos) {
      const std::string prefix = name.substr(0, slash);
      const auto known = std::find(names.begin(), names.end(), prefix);
      group = static_cast<size_t>(known - names.begin()) + 1;
      if (known == names.end()) {
        names.push_back(prefix);
        groups_[0].links.push_back({prefix, true, group});
        groups_.emplace_back();
      }
    }
    groups_[group].links.push_back({name.substr(slash + 1), false, i});  // npos + 1 is 0
  }
  for (Group& group : groups_) {
    auto by_name = [](const Link& a, const Link& b) { return a.name < b.name; };
    std::sort(group.links.begin(), group.links.end(), by_name);
    auto same_name = [](const Link& a, const Link& b) { return a.name == b.name; };
    auto twice = std::adjacent_find(group.links.begin(), group.links.end(), same_name);
    if (twice != group.links.end())
      throw Error(fmt::format("the name '{}' is given twice", twice->name));
    leaf_half_ = std::max(leaf_half_, (group.links.size() + 1) / 2);
  }
  if (leaf_half_ > std::numeric_limits<uint16_t>::max() / 2)
    throw Error(fmt::format("{} arrays are too many for a file", arrays_.size()));
}

// Every address, from front to back: the superblock, the groups, the arrays' headers, their values.
void Hdf5Layout::place() {
  size_t at = kSuperblockBytes;
  auto take = [&](size_t bytes) {
    const size_t place = at;
    at = aligned(at + bytes);
    return place;
  };
  for (Group& group : groups_) {
    group.heap_bytes = 8;  // the empty name
    for (const Link& link : group.links) group.heap_bytes += aligned(link.name.size() + 1);
    group.header = take(group_header(group).size());
    group.heap = take(kHeapHeaderBytes);
    group.heap_data = take(group.heap_bytes);
    group.tree = take(kTreeBytes);
    group.node = take(kNodeHeaderBytes + 2 * leaf_half_ * kEntryBytes);
  }
  for (const ArraySpec& array : arrays_) headers_.push_back(take(array_header(array, 0, 1).size()));
  for (size_t i = 0; i < arrays_.size(); ++i) {
    at = aligned(at, kDataAlignment);
    offsets_.push_back(take(array_bytes(i)));
  }
  bytes_ = at;
}

std::string Hdf5Layout::group_header(const Group& group) const {
  ObjectHeader header;
  header.add(0x11, Piece().u64(group.tree).u64(group.heap));
  if (&group == &groups_[0])
    for (const Hdf5Attribute& attribute : attributes_)
      header.add(0xC, attribute_message(attribute));
  return header.bytes();
}

void Hdf5Layout::write_group(std::span<std::byte> image, const Group& group) const {
  place_piece(image, group.header, group_header(group));
  constexpr uint64_t kNothingFree = 1;
  Piece heap, names, node, tree;
  heap.text("HEAP").u32(0).u64(group.heap_bytes).u64(kNothingFree).u64(group.heap_data);
  names.zeros(8);
  node.text("SNOD").u8(1).u8(0).u16(group.links.size());
  size_t last_name = 0;
  for (const Link& link : group.links) {
    last_name = names.bytes().size();
    names.text(link.name).u8(0).align();
    node.u64(last_name);
    node.u64(link.is_group ? groups_[link.index].header : headers_[link.index]).zeros(24);
  }
  const bool empty = group.links.empty();
  tree.text("TREE").u8(0).u8(0).u16(empty ? 0 : 1).u64(kUndefined).u64(kUndefined);
  tree.u64(0).u64(empty ? 0 : group.node).u64(last_name);
  place_piece(image, group.heap, heap.bytes());
  place_piece(image, group.heap_data, names.bytes());
  place_piece(image, group.tree, tree.bytes());
  place_piece(image, group.node, node.bytes());
}

void Hdf5Layout::write(std::span<std::byte> image) const {
  if (image.size() < front_bytes())
    throw InternalError(fmt::format("an image of {} bytes for {}", image.size(), front_bytes()));
  std::memset(image.data(), 0, std::min(bytes_, image.size()));
  const Group& root = groups_[0];
  Piece superblock;
  superblock.text("\x89HDF\r\n\x1a\n").u32(0).u8(0).u8(8).u8(8).u8(0);
  superblock.u16(leaf_half_).u16(kTreeHalf).u32(0);
  superblock.u64(0).u64(kUndefined).u64(bytes_).u64(kUndefined);
  superblock.u64(0).u64(root.header).u32(1).u32(0).u64(root.tree).u64(root.heap);
  place_piece(image, 0, superblock.bytes());
  for (const Group& group : groups_) write_group(image, group);
  for (size_t i = 0; i < arrays_.size(); ++i)
    place_piece(image, headers_[i], array_header(arrays_[i], offsets_[i], array_bytes(i)));
}

}  // namespace tessera
