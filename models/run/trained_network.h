// TrainedNetwork: the network of a run folder or of a file of weights, without data; and its export
// to PyTorch and Keras.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/layers/module.h"
#include "tessera/models/config/config.h"

namespace tessera {

// A run folder, or a file of weights (models/run/pretrained.h). The metadata of our own files
// describe the network and its images (docs/inference.md). For others `model` is needed; the images
// are those of the published weights unless data.image_size, data.mean and data.std are set.
struct NetworkSource {
  std::string run = {};
  std::string checkpoint = {};  // "best", "latest" or a file; "": the final weights of the run
  std::string weights = {};     // a file; the following belong to it
  std::string model = {};       // a name of the zoo
  std::vector<std::string> settings = {};  // "data.image_size=128", "data.mean=imagenet"
  std::string class_names = {};            // a file with one name per line
};

// The configuration and the inference description of a network; its weights are not read yet.
class NetworkOrigin {
 public:
  // Throws ConfigError if the run does not exist or a setting is missing or wrong, CheckpointError
  // if the weights do not fit the network.
  explicit NetworkOrigin(const NetworkSource& source);
  bool is_run() const { return source_.weights.empty(); }
  const std::string& run() const { return source_.run; }
  const std::string& weights() const { return source_.weights; }
  // Returns the file to load: the checkpoint or the final weights of the run, or weights(). Throws
  // CheckpointError if the run has none.
  std::string weights_file() const;
  // Returns the configuration of the training or, for a file, one with its model and images.
  Config config(const std::vector<std::string>& overrides = {}) const;
  // Returns the inference description (models/run/inference.h); "" if a run has none.
  const std::string& inference() const { return inference_; }

 private:
  void describe_weights();
  NetworkSource source_;
  std::vector<std::string> settings_;  // for a file
  std::string inference_;
};

struct TrainedNetwork {
  Config config;
  std::string weights;    // path of the weights file
  std::string inference;  // models/run/inference.h
  ImageShape image;
  Store store;
  std::unique_ptr<Module> network;
};

// Loads the weights. The network is on the CPU. Throws what NetworkOrigin throws.
std::unique_ptr<TrainedNetwork> trained_network(const NetworkSource& source);

// Writes parameters and running statistics as safetensors for PyTorch, in PyTorch's dimension
// order. Names are torchvision's for a network of torchvision, else module paths with PyTorch's
// last parts. `path` is the old or the complete new file at any time. Returns the origin of the
// names: "torchvision's resnet50", "our own". Throws CheckpointError if `path` cannot be written.
std::string export_safetensors(const TrainedNetwork& trained, const std::string& path);

enum class KerasForm {
  now,     // ".weights.h5"
  before,  // ".h5", which Keras 2 and 3 read
};

// Writes weights as Keras's model.save_weights() does for the same layers in the same order. `path`
// is the old or the complete new file. Throws CheckpointError if `path` cannot be written.
void export_keras(const TrainedNetwork& trained, const std::string& path, KerasForm form);

}  // namespace tessera
