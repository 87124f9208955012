// Where everything lies in a small HDF5 file of named arrays, and its bytes: written here without
// the HDF5 library, so that a checkpoint needs no memory but its own image, each array has a known
// place in it, and equal contents give equal bytes (no times, no free space).
//
// The format is that of HDF5 1.0 ("superblock 0"), which every version of the library reads: arrays
// at the root ("fc.b") or in one level of groups ("weights/fc.b"), contiguous, little-endian;
// attributes of the root. Source: the HDF5 File Format Specification, version 3.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/array_spec.h"

namespace tessera {

// Bytes of an element; 0 for a dtype that is not known.
size_t hdf5_size_of(const std::string& dtype);

// A text when `text` is not empty, otherwise a whole number.
struct Hdf5Attribute {
  std::string name, text;
  int32_t number = 0;
};

// Immutable.
class Hdf5Layout {
 public:
  // Throws Error for a name that is empty, given twice, "." or "..", has more than one '/' or a
  // zero byte; for an unknown dtype, a shape with a negative extent or too many elements for a
  // file.
  Hdf5Layout(std::vector<ArraySpec> arrays, std::vector<Hdf5Attribute> attributes);

  const std::vector<ArraySpec>& arrays() const { return arrays_; }
  // Of the whole file.
  size_t bytes() const { return bytes_; }
  // Of the values of arrays()[i]: a multiple of 64.
  size_t offset(size_t i) const { return offsets_[i]; }
  size_t array_bytes(size_t i) const;
  // Of what stands before the first value: a large file is written as this and then the values.
  size_t front_bytes() const { return offsets_.empty() ? bytes_ : offsets_[0]; }
  // Fills bytes() bytes: everything but the arrays' values, which become zeros. A shorter image, of
  // at least front_bytes(), gets so much of that.
  void write(std::span<std::byte> image) const;

 private:
  struct Link {
    std::string name;
    bool is_group;
    size_t index;  // of the array or group
  };
  struct Group {
    std::vector<Link> links;  // sorted by name
    size_t header = 0, heap = 0, heap_data = 0, heap_bytes = 0, tree = 0, node = 0;
  };
  void make_groups();
  void place();
  std::string group_header(const Group& group) const;
  void write_group(std::span<std::byte> image, const Group& group) const;

  std::vector<ArraySpec> arrays_;
  std::vector<Hdf5Attribute> attributes_;
  std::vector<Group> groups_;  // the root first
  std::vector<size_t> headers_, offsets_;
  size_t bytes_ = 0, leaf_half_ = 4;
};

}  // namespace tessera
