// What reading weights and reading checkpoints have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/formats/hdf5_read.h"

namespace tessera {

// An HDF5 file whose checksum was found right, and what is in it.
struct ArrayFile {
  std::unique_ptr<ByteSource> bytes;
  Hdf5Contents contents;

  // The number of an attribute of the root; 0 where there is none.
  int32_t number(const std::string& attribute) const;
  std::string text(const std::string& attribute) const;
  const Hdf5Array* find(const std::string& name) const;
};

// need_seal: false lets a file pass that says by itself that nothing stands behind its HDF5 data,
// as other programs write them. Throws Error without the file's name.
ArrayFile open_arrays(std::unique_ptr<ByteSource> bytes, bool need_seal,
                      Hdf5Groups groups = Hdf5Groups::one_level);

// Every difference between what is wanted and what is there, one a line; "" when there is none.
std::string differences(const std::vector<ArraySpec>& wanted, const std::vector<Hdf5Array>& found);

}  // namespace tessera
