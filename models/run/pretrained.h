// Pretrained weights for the network of a configuration: model.weights.
//
// The file uses the names of the network, those of another program with the same network
// (models/zoo/names/name_tables.h), or Keras's numbers of layers. The layer that computes the
// logits keeps its initial values if the file has another number of classes for it, or no such
// layer. All other tensors must be in the file with the right shape, and no others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/models/run/foreign_weights.h"
#include "tessera/models/run/weight_source.h"

namespace tessera {

class Store;  // engine/store.h

class Pretrained {
 public:
  // Opens the file and reads its table of tensors. Throws CheckpointError.
  explicit Pretrained(const std::string& path);
  const std::string& inference() const { return source_->inference(); }

  // Matches the tensors of file and network; reads no values. Returns a line about the match.
  // Throws CheckpointError with a line for each tensor that is missing, left over or of another
  // shape, and the network that the file resembles.
  std::string match(const Config& config, const ImageShape& image);

  // Returns the classes of the file's last layer after match(); 0: it has none.
  int64_t classes() const { return classes_; }

  // Reads all values. Throws CheckpointError for a value that load() refuses: not finite, or a
  // negative variance.
  void check() const;

  // Fills the store of the matched network. Throws CheckpointError, also for a value that is not
  // finite and for a negative variance.
  void load(const Store& store) const;

 private:
  std::string match_application(const Config& config);

  struct Pair {
    size_t layout, source;  // in layouts_, in source_->tensors()
  };

  std::unique_ptr<WeightSource> source_;
  std::vector<WeightLayout> layouts_;
  std::vector<ForeignWeight> weights_;  // one per layout, as in the file
  std::vector<Pair> pairs_;
  int64_t classes_ = 0;
  double more_variance_ = 0;  // added to running variances
};

}  // namespace tessera
