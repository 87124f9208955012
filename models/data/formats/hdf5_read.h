// Reads what is in a small HDF5 file of named arrays without the HDF5 library, for files that
// nobody vouches for: every address, count and name is checked before it is used, the work is
// bounded by the file's size, and memory by the names and shapes in it. Values are not touched: a
// caller gets each array's place.
//
// Understood is what hdf5_layout.h writes and what other programs write in the same old format
// (h5py: libver="earliest", the default up to HDF5 1.14): arrays at the root or in one level of
// groups, contiguous or compact, little-endian, and texts of a fixed length. All else is refused by
// name: soft and external links, external and virtual storage, chunks, filters, texts of variable
// length, newer group formats.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/formats/hdf5_layout.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/byte_source.h"

namespace tessera {

struct Hdf5Array : ArraySpec {
  uint64_t offset = 0, bytes = 0;  // within the file
};

// A list of texts that is an attribute of a group: each ends at its first zero byte.
struct Hdf5Texts {
  std::string group, name;  // "" is the root
  std::vector<std::string> texts;
};

struct Hdf5Contents {
  std::vector<Hdf5Array> arrays;          // sorted by name
  std::vector<Hdf5Attribute> attributes;  // of the root; other kinds than Hdf5Attribute's left out
  std::vector<Hdf5Texts> lists;           // of all groups; left empty by one_level
  uint64_t end = 0;                       // of the file, as it says itself: at most its size
};

// Where the file is damaged or not of the kind above. Names the place, and the array if it is
// known.
class Hdf5Error : public Error {
  using Error::Error;
};
// Of an array that is sound but stored in a way that is not read; says which way is.
class Hdf5StorageError : public Hdf5Error {
  using Hdf5Error::Hdf5Error;
};

// nested: groups may stand in groups, arrays of other types are left out, not refused, and lists of
// texts that are attributes are read, those of variable length too; for files of other programs
// that are looked through.
enum class Hdf5Groups { one_level, nested };

// Throws Hdf5Error.
Hdf5Contents read_hdf5(const ByteSource& file, Hdf5Groups groups = Hdf5Groups::one_level);

}  // namespace tessera
