#include "tessera/models/data/formats/hdf5_read.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace tessera {

namespace {

constexpr uint64_t kUndefined = ~uint64_t{0};
constexpr uint64_t kMaxObjects = 1 << 17, kLinkAndHeaderBytes = 56;
constexpr uint64_t kMaxNames = uint64_t{16} << 20, kMaxRead = uint64_t{256} << 20;
constexpr size_t kMaxMessages = 1 << 12, kMaxHeaderBytes = size_t{1} << 20;
constexpr int kMaxTreeLevels = 8, kMaxRank = 8, kMaxDepth = 16;

// Bounds the work, whatever refers to what.
class Metered final : public ByteSource {
 public:
  explicit Metered(const ByteSource& file) : file_(file) {}
  uint64_t size() const override { return file_.size(); }
  void read(uint64_t offset, void* to, size_t count) const override {
    if ((read_ += count) > kMaxRead) throw Hdf5Error("it has too much beside its arrays");
    file_.read(offset, to, count);
  }

 private:
  const ByteSource& file_;
  mutable uint64_t read_ = 0;
};

// A piece of the file, read from front to back.
class Piece {
 public:
  Piece(const ByteSource& file, uint64_t at, uint64_t count, const char* what)
      : at_(at), what_(what), bytes_(checked(file, count)) {
    file.read(at, bytes_.data(), bytes_.size());
  }

  uint64_t number(size_t count) {
    need(count);
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + next_, count);
    next_ += count;
    return value;
  }
  unsigned u8() { return static_cast<unsigned>(number(1)); }
  unsigned u16() { return static_cast<unsigned>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  void skip(size_t count) {
    need(count);
    next_ += count;
  }
  void go_to(size_t place) {
    next_ = 0;
    skip(place);
  }
  std::string text(size_t count) {
    need(count);
    next_ += count;
    return std::string(reinterpret_cast<const char*>(bytes_.data()) + next_ - count, count);
  }
  size_t place() const { return next_; }
  size_t left() const { return bytes_.size() - next_; }
  void expect(const char* signature) {
    if (text(4) != signature) fail(fmt::format("it does not begin with {}", signature));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Hdf5Error(fmt::format("{} at byte {}: {}", what_, at_, why));
  }

 private:
  size_t checked(const ByteSource& file, uint64_t count) const {
    if (at_ > file.size() || count > file.size() - at_)
      fail(fmt::format("its {} bytes do not lie in the file, which has {}", count, file.size()));
    return static_cast<size_t>(count);
  }
  void need(size_t count) const {
    if (count > left()) fail("it ends too early");
  }

  uint64_t at_;
  const char* what_;
  std::vector<std::byte> bytes_;
  size_t next_ = 0;
};

// A list of texts as an attribute holds it: the texts, or where they stand in heaps.
struct TextList {
  struct Place {
    uint32_t length;
    uint64_t heap;
    uint32_t index;
  };
  std::string name;
  std::vector<std::string> texts;
  std::vector<Place> places;
};

// What the messages of an object's header say.
struct Object {
  bool is_group = false, has_space = false, has_type = false, has_layout = false;
  uint64_t tree = 0, heap = 0;
  Hdf5Array array;
  std::string stored;  // in which way that is not read; empty: in one that is
  std::vector<Hdf5Attribute> attributes;
  std::vector<TextList> lists;
};

void read_space(Piece& from, std::vector<int64_t>& shape) {
  const unsigned version = from.u8(), rank = from.u8(), flags = from.u8();
  if (version != 1 && version != 2) from.fail(fmt::format("shapes of version {}", version));
  if (rank > kMaxRank) from.fail(fmt::format("{} dimensions", rank));
  if (version == 2 && from.u8() == 2) from.fail("a null space");
  if (version == 1) from.skip(5);
  (void)flags;  // the largest extents, which may follow, do not matter
  shape.clear();
  for (unsigned i = 0; i < rank; ++i) {
    const uint64_t extent = from.u64();
    if (extent >> 48 != 0) from.fail(fmt::format("an extent of {}", extent));
    shape.push_back(static_cast<int64_t>(extent));
  }
}

constexpr uint32_t kPlaceBytes = 16;  // of a text that stands in a heap
constexpr char kVariable[] = "a text or list of variable length";

// The name of a dtype, "" for one that is not known; `text_bytes`: what holds one text.
std::string read_type(Piece& from, uint32_t& text_bytes) {
  const size_t start = from.place();
  const unsigned kind = from.u8(), flags = from.u8(), sign = from.u8();
  from.skip(1);
  const uint32_t size = from.u32();
  if (kind >> 4 < 1 || kind >> 4 > 3) return "";
  if ((kind & 15) == 9) {
    text_bytes = (flags & 15) == 1 ? kPlaceBytes : 0;
    return kVariable;
  }
  if ((kind & 15) == 3) {
    text_bytes = size;
    return "text";
  }
  from.go_to(start + 8);
  if ((kind & 15) == 0 && from.left() >= 4 && from.u32() == size * 8 << 16) {
    if (flags == 0x08) return size == 4 ? "int32" : size == 8 ? "int64" : "";
    return flags == 0 && size == 1 ? "uint8" : "";
  }
  if ((kind & 15) != 1 || flags != 0x20 || from.left() < 12) return "";
  const uint64_t place = from.u64();
  const uint32_t bias = from.u32();
  if (size == 4 && sign == 31 && place == 0x1700081700200000 && bias == 127) return "float32";
  if (size == 8 && sign == 63 && place == 0x34000b3400400000 && bias == 1023) return "float64";
  return "";
}

void read_layout(Piece& from, uint64_t at, Object& object) {
  const unsigned version = from.u8();
  if (version != 3) from.fail(fmt::format("storage of version {}, such as virtual", version));
  const unsigned kind = from.u8();
  if (kind == 2) {
    if (object.stored.empty()) object.stored = "in chunks";
    return;
  }
  if (kind > 2) from.fail(fmt::format("storage of the unknown kind {}", kind));
  object.array.bytes = 0;
  if (kind == 1) {
    object.array.offset = from.u64();
    object.array.bytes = from.u64();
  } else {
    object.array.bytes = from.u16();
    object.array.offset = at + from.place();
  }
}

// The values of an attribute that is a list of texts; `left` bytes of its message hold them. An
// empty list may be of any type.
void read_list(Piece& from, TextList list, const std::string& dtype, uint32_t text_bytes,
               uint64_t count, size_t left, Object& object) {
  const bool in_heaps = dtype == kVariable && text_bytes == kPlaceBytes;
  if (count > 0 && !in_heaps && (dtype != "text" || text_bytes == 0)) return;
  if (count > 0 && count > left / text_bytes) from.fail("an attribute is longer than its message");
  for (uint64_t i = 0; i < count; ++i) {
    if (in_heaps) {
      const uint32_t length = from.u32();
      const uint64_t heap = from.u64();
      list.places.push_back({length, heap, from.u32()});
    } else {
      list.texts.emplace_back(from.text(text_bytes).c_str());
    }
  }
  object.lists.push_back(std::move(list));
}

void read_attribute(Piece& from, size_t size, Object& object) {
  const size_t start = from.place();
  const unsigned version = from.u8(), flags = from.u8();
  if (version < 1 || version > 3) from.fail(fmt::format("an attribute of version {}", version));
  const size_t name = from.u16(), type = from.u16(), space = from.u16();
  if (version == 3) from.skip(1);
  auto padded = [&](size_t bytes) { return version == 1 ? (bytes + 7) / 8 * 8 : bytes; };
  Hdf5Attribute attribute;
  attribute.name = from.text(name).c_str();
  from.skip(padded(name) - name);
  uint32_t text_bytes = 0;
  size_t next = from.place() + padded(type);
  const std::string dtype = read_type(from, text_bytes);
  from.go_to(next);
  std::vector<int64_t> shape;
  next += padded(space);
  read_space(from, shape);
  from.go_to(next);
  if (flags != 0) return;
  const size_t used = from.place() - start;
  if (used > size) from.fail("an attribute is longer than its message");
  if (shape.size() == 1)
    return read_list(from, {attribute.name, {}, {}}, dtype, text_bytes,
                     static_cast<uint64_t>(shape[0]), size - used, object);
  if (!shape.empty()) return;
  if (dtype == "text" && text_bytes <= size - used) {
    attribute.text = from.text(text_bytes);
  } else if (dtype == "int32" && size - used >= 4) {
    attribute.number = static_cast<int32_t>(from.u32());
  } else {
    return;
  }
  object.attributes.push_back(std::move(attribute));
}

class Reader {
 public:
  Reader(const ByteSource& file, Hdf5Groups groups)
      : file_(file),
        nested_(groups == Hdf5Groups::nested),
        most_objects_(std::min(kMaxObjects, file.size() / kLinkAndHeaderBytes + 8)),
        most_names_(std::min(kMaxNames, 2 * file.size())) {}

  Hdf5Contents read() {
    Piece superblock(file_, 0, std::min<uint64_t>(96, file_.size()), "the superblock");
    if (superblock.text(8) != "\x89HDF\r\n\x1a\n") superblock.fail("this is no HDF5 file");
    const unsigned version = superblock.u8();
    if (version != 0)
      superblock.fail(fmt::format(
          "the file's format is version {}, as newer HDF5 libraries write it; convert it "
          "with `h5repack --low=0 --high=1 FILE NEW`, or write it with "
          "libver=\"earliest\" of h5py",
          version));
    superblock.skip(4);
    if (superblock.u16() != 0x0808) superblock.fail("addresses do not have 8 bytes");
    superblock.go_to(24);
    if (superblock.u64() != 0) superblock.fail("a base address");
    superblock.skip(8);
    contents_.end = superblock.u64();
    if (contents_.end > file_.size())
      superblock.fail(
          fmt::format("the file should have {} bytes, but has {}", contents_.end, file_.size()));
    superblock.skip(16);
    Object root = read_object(superblock.u64());
    if (!root.is_group) superblock.fail("the root is no group");
    contents_.attributes = std::move(root.attributes);
    read_group(root, "", 0);
    auto by_name = [](const Hdf5Array& a, const Hdf5Array& b) { return a.name < b.name; };
    std::sort(contents_.arrays.begin(), contents_.arrays.end(), by_name);
    for (size_t i = 1; i < contents_.arrays.size(); ++i)
      if (contents_.arrays[i].name == contents_.arrays[i - 1].name)
        throw Hdf5Error(fmt::format("the name '{}' is there twice", contents_.arrays[i].name));
    return std::move(contents_);
  }

 private:
  // Bounds memory: what refers to one object twice is no file of ours.
  void count_object() {
    if (++objects_ > most_objects_) throw Hdf5Error("it has too many objects");
  }

  Object read_object(uint64_t at) {
    count_object();
    Piece head(file_, at, 16, "an object header");
    if (head.u8() != 1) head.fail("it is not of version 1");
    head.skip(1);
    unsigned messages = head.u16();
    head.skip(4);
    struct Block {
      uint64_t at, bytes;
    };
    std::vector<Block> blocks{{at + 16, head.u32()}};
    if (messages > kMaxMessages) head.fail(fmt::format("{} messages", messages));
    Object object;
    for (size_t i = 0; i < blocks.size() && messages > 0; ++i) {
      if (blocks[i].bytes > kMaxHeaderBytes) head.fail("it is too long");
      Piece block(file_, blocks[i].at, blocks[i].bytes, "an object header");
      for (; block.left() >= 8 && messages > 0; --messages) {
        const unsigned kind = block.u16(), size = block.u16(), flags = block.u8();
        block.skip(3);
        const size_t next = block.place() + size;
        if (size > block.left()) block.fail("a message is longer than its header");
        if (kind == 0x10) {
          if (blocks.size() > kMaxMessages) block.fail("it has too many parts");
          blocks.push_back({block.u64(), 0});
          blocks.back().bytes = block.u64();
        } else {
          read_message(block, kind, flags, size, blocks[i].at, object);
        }
        block.go_to(next);
      }
    }
    return object;
  }

  void read_message(Piece& from, unsigned kind, unsigned flags, size_t size, uint64_t at,
                    Object& object) {
    if ((flags & 2) != 0 && kind != 0) from.fail("a shared message");
    switch (kind) {
      case 0x00:
      case 0x04:
      case 0x05:
      case 0x0D:
      case 0x0E:
      case 0x12:
      case 0x13:
      case 0x16:
        return;  // nothing, fill values, comments, times, counts
      case 0x01:
        object.has_space = true;
        return read_space(from, object.array.shape);
      case 0x03:
        object.has_type = true;
        object.array.dtype = read_type(from, text_bytes_);
        return;
      case 0x08:
        object.has_layout = true;
        return read_layout(from, at, object);
      case 0x0C:
        return read_attribute(from, size, object);
      case 0x11:
        object.is_group = true;
        object.tree = from.u64();
        object.heap = from.u64();
        return;
      case 0x02:
      case 0x06:
      case 0x0A:
        from.fail("a group of the newer format");
      case 0x07:
        from.fail("external storage");
      case 0x0B:
        object.stored = "in chunks that a filter has changed, such as compression";
        return;
      default:
        from.fail(fmt::format("a message of the unknown kind {}", kind));
    }
  }

  // The names of texts are bounded as those of arrays.
  void take_lists(Object& group, const std::string& prefix) {
    for (TextList& list : group.lists) {
      for (const TextList::Place& place : list.places) list.texts.push_back(text_at(place));
      for (const std::string& text : list.texts) name_bytes_ += text.size() + 1;
      if (name_bytes_ > most_names_) throw Hdf5Error("it has too many names");
      contents_.lists.push_back({prefix.substr(0, prefix.size() - !prefix.empty()),
                                 std::move(list.name), std::move(list.texts)});
    }
  }

  // Of a global heap: objects with a number and a size, one behind the other.
  std::string text_at(const TextList::Place& place) {
    if (place.length == 0) return "";
    Piece head(file_, place.heap, 16, "a heap of texts");
    head.expect("GCOL");
    if (head.u8() != 1) head.fail("it is not of version 1");
    head.skip(3);
    uint64_t left = head.u64();
    if (left < 16 || left > file_.size() - place.heap) head.fail("it does not lie in the file");
    uint64_t at = place.heap + 16;
    for (left -= 16; left >= 16;) {
      Piece object(file_, at, 16, "a text");
      const unsigned index = object.u16();
      object.skip(6);
      const uint64_t bytes = object.u64();
      if (index == 0 || bytes > left - 16) break;
      if (index == place.index) {
        if (place.length > bytes) object.fail("it is shorter than its length");
        return Piece(file_, at + 16, place.length, "a text").text(place.length).c_str();
      }
      const uint64_t whole = std::min(16 + (bytes + 7) / 8 * 8, left);
      at += whole, left -= whole;
    }
    head.fail(fmt::format("it has no text of the number {}", place.index));
  }

  void read_group(Object& group, const std::string& prefix, int depth) {
    if (nested_) take_lists(group, prefix);
    Piece heap(file_, group.heap, 32, "a heap");
    heap.expect("HEAP");
    heap.skip(4);
    const uint64_t bytes = heap.u64();
    heap.skip(8);
    if (bytes > kMaxNames) heap.fail(fmt::format("{} bytes of names", bytes));
    Piece names(file_, heap.u64(), bytes, "names");
    const std::string all = names.text(static_cast<size_t>(bytes));
    read_tree(group.tree, -1, all, prefix, depth);
  }

  // level: what it must be; -1 for the root.
  void read_tree(uint64_t at, int level, const std::string& names, const std::string& prefix,
                 int depth) {
    count_object();
    Piece head(file_, at, 24, "a tree");
    head.expect("TREE");
    if (head.u8() != 0) head.fail("it is not one of names");
    const int own = static_cast<int>(head.u8());
    const unsigned children = head.u16();
    if (own > kMaxTreeLevels || (level >= 0 && own != level)) head.fail("its level is wrong");
    Piece links(file_, at + 24, uint64_t{children} * 16, "a tree");
    for (unsigned i = 0; i < children; ++i) {
      links.skip(8);
      const uint64_t child = links.u64();
      if (own > 0) {
        read_tree(child, own - 1, names, prefix, depth);
      } else {
        read_node(child, names, prefix, depth);
      }
    }
  }

  void read_node(uint64_t at, const std::string& names, const std::string& prefix, int depth) {
    count_object();
    Piece head(file_, at, 8, "a list of names");
    head.expect("SNOD");
    if (head.u8() != 1) head.fail("it is not of version 1");
    head.skip(1);
    const unsigned count = head.u16();
    Piece entries(file_, at + 8, uint64_t{count} * 40, "a list of names");
    for (unsigned i = 0; i < count; ++i) {
      const uint64_t name = entries.u64(), header = entries.u64();
      if (entries.u32() == 2) entries.fail("a soft link");
      entries.skip(20);
      if (name >= names.size()) entries.fail("a name does not lie in the heap");
      const size_t end = names.find('\0', static_cast<size_t>(name));
      if (end == std::string::npos) entries.fail("a name has no end");
      const std::string text = names.substr(static_cast<size_t>(name), end - name);
      if (text.empty() || text == "." || text == ".." || text.find('/') != std::string::npos)
        entries.fail("a name that cannot be");
      name_bytes_ += text.size() + prefix.size();
      if (name_bytes_ > most_names_) entries.fail("too many names");
      add(read_named(header, prefix + text), prefix + text, depth);
    }
  }

  Object read_named(uint64_t at, const std::string& name) try {
    return read_object(at);
  } catch (const Hdf5Error& error) {
    throw Hdf5Error(fmt::format("'{}': {}", name, error.what()));
  }

  void add(Object object, const std::string& name, int depth) {
    auto need = [&](bool holds, const char* text) {
      if (!holds) throw Hdf5Error(fmt::format("'{}' {}", name, text));
    };
    if (!object.stored.empty())
      throw Hdf5StorageError(fmt::format(
          "'{}' is stored {}; write it contiguous and without compression, as h5py does "
          "without chunks= and compression=",
          name, object.stored));
    if (object.is_group) {
      need(nested_ || depth == 0, "is a group within a group; one level is read");
      need(depth < kMaxDepth, "is a group within too many others");
      return read_group(object, name + "/", depth + 1);
    }
    Hdf5Array& array = object.array;
    const bool is_other = array.dtype.empty() || array.dtype == kVariable ||
                          (array.dtype == "text" && !array.shape.empty());
    if (nested_ && is_other && object.has_type) return;
    need(object.has_space && object.has_type && object.has_layout, "is no array");
    if (array.dtype == kVariable)
      throw Hdf5StorageError(
          fmt::format("'{}' is {}; write a text with a fixed length, in h5py as np.bytes_(...)",
                      name, kVariable));
    need(!array.dtype.empty(),
         "is of a type that is not read: float32, float64, uint8, int32, "
         "int64 and texts are, little-endian");
    if (array.dtype == "text") {
      need(array.shape.empty(), "is a list of texts; one text is read, with a line for each");
      array.shape = {text_bytes_};
    }
    uint64_t bytes = hdf5_size_of(array.dtype);
    for (int64_t extent : array.shape) {
      need(extent == 0 || bytes <= contents_.end / static_cast<uint64_t>(extent) + 8,
           "is larger than the file");
      bytes *= static_cast<uint64_t>(extent);
    }
    if (bytes == 0 && array.offset == kUndefined) array.offset = 0;
    need(bytes == array.bytes, "has not the bytes that its shape needs");
    need(array.offset <= contents_.end && bytes <= contents_.end - array.offset,
         "does not lie in the file");
    array.name = name;
    contents_.arrays.push_back(std::move(array));
  }

  const Metered file_;
  const bool nested_;
  Hdf5Contents contents_;
  const uint64_t most_objects_, most_names_;
  uint64_t objects_ = 0, name_bytes_ = 0;
  uint32_t text_bytes_ = 0;  // of the text type read last
};

}  // namespace

Hdf5Contents read_hdf5(const ByteSource& file, Hdf5Groups groups) {
  return Reader(file, groups).read();
}

}  // namespace tessera
