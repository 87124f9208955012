// A file of weights, whoever wrote it: names, shapes and values of its tensors.
//
// Read are safetensors files, ours (weights and checkpoints) and others, and through libhdf5 those
// of Keras (.weights.h5 of Keras 3, .h5 of before) and what earlier versions of this program wrote.
// What is in it tells which it is, not its name. Nothing a safetensors file says is believed; all
// errors are CheckpointError and name the file.
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
  bool usable = true;  // its values can be weights
  uint64_t elements() const;
};

// Whose names and order of dimensions a file has.
enum class WeightForm { own, pytorch, keras };

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  const std::string& path() const { return path_; }
  // Sorted by name.
  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  WeightForm form() const { return form_; }
  // Drops a prefix that all names have. Returns false, and drops nothing, if one has not.
  bool drop_prefix(std::string_view prefix);
  // In their order, where the file tells: those of Keras before version 3 do.
  const std::vector<std::string>& layers() const { return layers_; }
  // Some of the values of tensors()[index], from the element `first` on.
  void read(size_t index, uint64_t first, std::span<double> to) const;

 protected:
  WeightSource(std::string path, WeightForm form) : path_(std::move(path)), form_(form) {}
  // Adds a tensor behind those before it by name. Throws Error for a name that is there already.
  void add(SourceTensor tensor);
  // Throws Error.
  virtual void read_from(size_t index, uint64_t first, std::span<double> to) const = 0;

  std::string path_;
  WeightForm form_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::string> layers_;
};

std::unique_ptr<WeightSource> open_weight_source(const std::string& path);

}  // namespace tessera
