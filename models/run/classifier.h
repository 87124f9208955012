// Classifier: the trained network of a run folder, compiled for inference.
//
//   auto net = tessera::load("runs/resnet");
//   const std::vector<float> logits = net(net.read("photo.jpg"));
//   std::cout << net.class_names()[net.best(logits)] << "\n";
//
// Loading computes everything that depends on weights alone: batch norms are folded into the
// convolutions before them, filters are prepacked. The network of the training, its optimizer and
// its gradients are not kept. So logits differ from those of an evaluation in the last bits.
//
// Thread-safe. Concurrent calls share the weights; each call uses an arena of its own, which is
// allocated when first needed and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

struct NetworkSource;   // models/run/trained_network.h
struct TrainedNetwork;  // models/run/trained_network.h

struct LoadOptions {
  std::string checkpoint = {};  // "best", "latest" or a file instead of the final weights
  int64_t batch = 1;            // images per run
  int threads = 0;              // CPU threads; 0: as in the run's configuration
  // The dtype of activations, float32, bf16 or f16; "": as in the run's configuration.
  std::string precision = {};
};

class Classifier {
 public:
  // Computes logits as in evaluation, including eval.flip. Throws Error for a batch below 1.
  Classifier(const TrainedNetwork& trained, int64_t batch, int threads = 0);
  Classifier(Classifier&&) noexcept;
  Classifier& operator=(Classifier&&) noexcept;
  ~Classifier();

  // Returns logits [n x classes] of uint8 images [n x height x width x channels], row-major, for
  // any n: the last batch is padded with zeros. Throws ShapeError if the bytes are not whole
  // images, OutOfMemory if no arena can be allocated.
  std::vector<float> operator()(std::span<const uint8_t> images) const;

  // Reads a JPEG, PNG or WebP file as an input of the network: rotated by its EXIF orientation,
  // scaled to data.resize, or to cover the image, and center-cropped. Throws DataError, naming the
  // file.
  std::vector<uint8_t> read(const std::string& path) const;

  // Classifies picture files, batch() at a time. Calls answer(i, logits, "") for files[i], in this
  // order; for a file that cannot be read, logits are empty and the last argument is the reason.
  void classify(const std::vector<std::string>& files,
                const std::function<void(size_t index, std::span<const float> logits,
                                         const std::string& fault)>& answer) const;

  // Return for one image: exp(logit) / sum(exp(logits)); the classes by decreasing logit; the first
  // of these classes.
  static std::vector<float> probabilities(std::span<const float> logits);
  static std::vector<size_t> ranking(std::span<const float> logits);
  static size_t best(std::span<const float> logits);

  const ImageShape& image() const { return image_; }
  int64_t classes() const { return classes_; }
  int64_t batch() const { return batch_; }
  // One per class; numbers if unnamed.
  const std::vector<std::string>& class_names() const { return names_; }
  const Normalization& normalization() const { return normalization_; }  // for pixels / 255
  const std::string& weights() const { return weights_; }                // path of the weights file
  // The dtype of activations, as configurations say it.
  const std::string& precision() const { return precision_; }

  // Planned memory: the shared weights; slots and arena of each concurrent call.
  struct Bytes {
    size_t weights = 0, slots = 0, arena = 0;
    size_t all() const { return weights + slots + arena; }
  };
  Bytes bytes() const { return bytes_; }

 private:
  struct Programs;
  ImageShape image_;
  int resize_;  // data.resize
  int64_t classes_, batch_;
  std::vector<std::string> names_;
  Normalization normalization_;
  std::string weights_, precision_;
  Bytes bytes_;
  std::unique_ptr<Programs> programs_;
};

// Loads the network of a run folder, or of a file of weights whose metadata describe it, as those
// of `trainer export` do. Throws ConfigError if the folder does not exist, the precision is unknown
// or the file does not tell what is needed, CheckpointError if the weights do not fit.
Classifier load(const std::string& run_dir, const LoadOptions& options = {});
Classifier load(const NetworkSource& source, const LoadOptions& options = {});

}  // namespace tessera
