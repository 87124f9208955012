// ArrayFile: an open safetensors file. Tessera's own files are weights or checkpoints:
//
//   metadata  format           "tessera weights" or "tessera checkpoint"
//             format_version   "2"; version 1 was HDF5
//             layout           "conv2d OHWI, linear OI, flatten HWC"
//   tensors   the arrays, by Tessera's names, and the checksum (sealed_file.h)
//
// Readers that need another layout convert the values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/memory/regions.h"
#include "tessera/models/data/formats/safetensors.h"

namespace tessera {

class Store;   // engine/store.h
class Tensor;  // engine/tensor.h

// A safetensors file of Tessera or of another program. Its checksum is verified if it has one.
struct ArrayFile {
  std::unique_ptr<ByteSource> bytes;
  SafetensorsContents contents;  // without the checksum

  // Returns an entry of the metadata; "" if there is none.
  std::string text(const std::string& name) const;
  bool is_own() const { return text("format").starts_with("tessera "); }
  const SafeTensor* find(const std::string& name) const;
};

// Opens and verifies a file. need_seal = false also accepts a file without a checksum, from another
// program. Throws Error without the file's name, also for a Tessera file of another version or
// layout.
ArrayFile open_arrays(std::unique_ptr<ByteSource> bytes, bool need_seal);

// Returns the metadata with which every Tessera file begins.
SafetensorsMetadata own_metadata(const std::string& format);

// Lists every difference between the wanted and the found arrays, one per line; "" if none.
std::string differences(const std::vector<ArraySpec>& wanted, const std::vector<SafeTensor>& found);

bool is_hdf5(const ByteSource& file);

// Throws CheckpointError, "weights 'PATH': WHAT".
[[noreturn]] void fail_weights(const std::string& path, const std::string& what);

// A weights file has one tensor per array under the array's dotted name ("layer1.0.conv.w"). Its
// metadata also has `step` and `inference` (models/run/inference.h).
//
// The file is written completely or not at all, with a checksum
// (models/data/formats/sealed_file.h). A file of another program is accepted without a checksum.
//
// All functions throw CheckpointError with the file and the reason. A damaged or hostile file is an
// error, never a crash. Thread-safe.
//
// An array has dtype float32 or float64 and a name without '/'.
struct HostArray : ArraySpec {
  void* data = nullptr;  // dense, row-major
};

// Parameters and running statistics of a store with their values on the host. Values on the CPU are
// used in place, values on a GPU are copied.
class HostWeights {
 public:
  explicit HostWeights(const Store& store);
  void fetch() const;  // from the GPU
  void put() const;    // to the GPU

  std::vector<HostArray> arrays;

 private:
  Region copies_;
  std::vector<std::pair<Tensor, void*>> copied_;
};

// Writes a weights file. `path` is the old or the complete new file at any time. Requires unique
// names. `step` is the number of training steps done. An empty `inference` is not written.
void write_weights(const std::string& path, std::span<const HostArray> arrays,
                   std::optional<int64_t> step = {}, const std::string& inference = "");
// Return the arguments of write_weights(); empty if none was given or another program wrote the
// file.
std::optional<int64_t> weights_step(const std::string& path);
std::string weights_inference(const std::string& path);

// Fills every array. Requires exactly these names, shapes and dtypes in the file; the error lists
// each missing, extra or different array. After an error the arrays are unchanged, unless the disk
// failed while values were read.
void read_weights(const std::string& path, std::span<const HostArray> arrays);

}  // namespace tessera
