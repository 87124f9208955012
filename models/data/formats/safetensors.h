// The safetensors format, in which pretrained weights are published and ours are kept: eight bytes
// with the length of a header, the header in JSON, and the values of all tensors one behind the
// other.
//
// Reading is for files that nobody vouches for: the header is bounded, every number is checked
// before it is used, and values must fill what is behind the header without holes and without two
// tensors in one place. Memory is that of the header and of the names in it. Values are not
// touched: a caller gets each tensor's place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/models/data/formats/array_spec.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/byte_source.h"

namespace tessera {

struct SafeTensor {
  std::string name;
  std::string dtype;               // as the format spells it: "F32", "BF16"
  std::vector<int64_t> shape;      // empty: a scalar
  uint64_t offset = 0, bytes = 0;  // within the file

  uint64_t elements() const;
  // Names the dtype as ours are named, or as the format does where we have none.
  ArraySpec spec() const;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsContents {
  std::vector<SafeTensor> tensors;  // sorted by name
  SafetensorsMetadata metadata;     // sorted
};

// Where the file is damaged or not of the format. Names the tensor where it is known.
class SafetensorsError : public Error {
  using Error::Error;
};

// Throws SafetensorsError.
SafetensorsContents read_safetensors(const ByteSource& file);

// Whether values of such a dtype are numbers with a fraction, which can be weights: F64, F32, F16,
// BF16.
bool is_fractional(const std::string& dtype);
// Some of a tensor's values, from the element `first` on. Of such a dtype. Throws what
// file.read() throws.
void read_values(const ByteSource& file, const SafeTensor& tensor, uint64_t first,
                 std::span<double> to);

// Returns what stands before the values in a file, the length and the header, and gives each tensor
// its place: those of larger elements first, otherwise in their order, so that every value lies at
// a multiple of its size. Throws Error for a name that is empty or given twice, and a dtype or a
// shape that no file can have.
std::string safetensors_front(std::vector<SafeTensor>& tensors,
                              const SafetensorsMetadata& metadata);
// A tensor without a place yet.
SafeTensor safe_tensor(const ArraySpec& array);

}  // namespace tessera
