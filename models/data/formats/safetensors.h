// The safetensors format of pretrained weights and of our own: eight bytes with the length of the
// header, the header in JSON, then the values of all tensors, contiguous.
//
// Files are untrusted: the header is bounded, every number is checked before it is used, and the
// tensors must fill the rest of the file without holes and overlaps. Reading allocates memory for
// the header and its names only; it returns the offset of each tensor and reads no values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

// The name, dtype and shape of an array in a file.
struct ArraySpec {
  std::string name;            // "fc.b" or "weights/fc.b"
  std::string dtype;           // "float32", a name_of(DType)
  std::vector<int64_t> shape;  // empty: a scalar
  bool operator==(const ArraySpec&) const = default;
};

struct SafeTensor {
  std::string name;
  std::string dtype;               // the format's name: "F32", "BF16"
  std::vector<int64_t> shape;      // empty: a scalar
  uint64_t offset = 0, bytes = 0;  // in the file

  uint64_t elements() const;
  // Returns our name of the dtype, or the format's if we have no such dtype.
  ArraySpec spec() const;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsContents {
  std::vector<SafeTensor> tensors;  // sorted by name
  SafetensorsMetadata metadata;     // sorted
};

// Thrown for a damaged file or another format. Names the tensor if it is known.
class SafetensorsError : public Error {
  using Error::Error;
};

// Reads the header. Throws SafetensorsError.
SafetensorsContents read_safetensors(const ByteSource& file);

// Returns true for floating-point dtypes that weights can have: F64, F32, F16, BF16.
bool is_fractional(const std::string& dtype);
// Reads to.size() values of a tensor, from element `first` on. Requires
// is_fractional(tensor.dtype). Throws what file.read() throws.
void read_values(const ByteSource& file, const SafeTensor& tensor, uint64_t first,
                 std::span<double> to);

// Returns the bytes before the values, the length and the header, and sets each tensor's offset.
// Tensors of larger elements come first, otherwise in order, so that every value is aligned to its
// size. Throws Error for an empty or duplicate name, and for an invalid dtype or shape.
std::string safetensors_front(std::vector<SafeTensor>& tensors,
                              const SafetensorsMetadata& metadata);
// Returns a tensor without an offset yet.
SafeTensor safe_tensor(const ArraySpec& array);

}  // namespace tessera
