// A trained network that answers: the weights of a run folder, ready for images.
//
//   auto net = tessera::load("runs/resnet");
//   const std::vector<float> logits = net(net.read("photo.jpg"));
//   std::cout << net.class_names()[net.best(logits)] << "\n";
//
// What is computed from weights alone is computed when it is loaded: batch norms are a part of the
// convolutions before them, filters stand in the form in which they are multiplied. Then the
// network of the training, its optimizer and its gradients are gone. So logits differ from those of
// an evaluation in the last bits.
//
// All is thread-safe: threads that call at once share the weights, and each has an arena, which is
// made when it is first needed and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

struct TrainedNetwork;  // models/run/trained_network.h

struct LoadOptions {
  std::string checkpoint = {};  // "best", "latest" or a file instead of the final weights
  int64_t batch = 1;            // images that are computed together
  int threads = 0;              // of the CPU; 0: as the run's configuration says
};

class Classifier {
 public:
  // Images are as in evaluation, eval.flip included. Throws Error for a batch below 1.
  Classifier(const TrainedNetwork& trained, int64_t batch, int threads = 0);
  Classifier(Classifier&&) noexcept;
  Classifier& operator=(Classifier&&) noexcept;
  ~Classifier();

  // Logits [n x classes] of uint8 images [n x height x width x channels], row-major, of any n: the
  // last batch is filled with zeros. Throws ShapeError where the bytes are not whole images,
  // OutOfMemory where there is none for an arena.
  std::vector<float> operator()(std::span<const uint8_t> images) const;

  // A JPEG or PNG file as the network takes it: scaled until it covers the image, the middle cut
  // out, turned as EXIF says. Throws DataError, naming the file.
  std::vector<uint8_t> read(const std::string& path) const;

  // Of one image: exp(logit) / sum(exp(logits)), the classes from the surest down, and the first of
  // these.
  static std::vector<float> probabilities(std::span<const float> logits);
  static std::vector<size_t> ranking(std::span<const float> logits);
  static size_t best(std::span<const float> logits);

  const ImageShape& image() const;
  int64_t classes() const;
  int64_t batch() const;
  const std::vector<std::string>& class_names() const;  // one for each class: numbers where none
  const Normalization& normalization() const;           // of pixels / 255
  const std::string& weights() const;                   // the file they are from

  // Of the plan: weights, shared; and what each thread that calls at once has.
  struct Bytes {
    size_t weights = 0, slots = 0, arena = 0;
    size_t all() const { return weights + slots + arena; }
  };
  Bytes bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Throws ConfigError where there is no such folder, CheckpointError for weights that do not fit.
Classifier load(const std::string& run_dir, const LoadOptions& options = {});

}  // namespace tessera
