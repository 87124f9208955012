// WeightSource: names, shapes and values of the tensors in a weights file of any program.
//
// Supported are safetensors files (Tessera's weights and checkpoints, and others) and, with
// libhdf5, files of Keras (.weights.h5 of Keras 3, .h5 of earlier ones) and of earlier versions of
// Tessera. The content of a file decides its format; its name does not. Everything in a safetensors
// file is checked. All errors are CheckpointError and name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct SourceTensor {
  std::string name, dtype;  // "float32", "F16": as the format spells it
  std::vector<int64_t> shape;
  bool usable = true;  // values can be weights
  uint64_t elements() const;
};

// The program whose names and dimension order a file has.
enum class WeightForm { own, pytorch, keras };

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  const std::string& path() const { return path_; }
  // Returns the tensors, sorted by name.
  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  WeightForm form() const { return form_; }
  // Drops a prefix of all names. Returns false, and drops nothing, if a name lacks it.
  bool drop_prefix(std::string_view prefix);
  // Returns the layers in order, if the file lists them, as Keras did before version 3.
  const std::vector<std::string>& layers() const { return layers_; }
  // Returns the description in the metadata (models/run/inference.h); "" if there is none.
  const std::string& inference() const { return inference_; }
  // Reads values of tensors()[index], from the element `first` on.
  void read(size_t index, uint64_t first, std::span<double> to) const;

 protected:
  WeightSource(std::string path, WeightForm form) : path_(std::move(path)), form_(form) {}
  // Adds a tensor; requires calls in order of names. Throws Error for a repeated name.
  void add(SourceTensor tensor);
  // Implements read(). Throws Error.
  virtual void read_from(size_t index, uint64_t first, std::span<double> to) const = 0;

  std::string path_;
  WeightForm form_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::string> layers_;
  std::string inference_;
};

std::unique_ptr<WeightSource> open_weight_source(const std::string& path);

}  // namespace tessera
