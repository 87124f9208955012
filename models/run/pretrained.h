// Weights that were trained elsewhere, for the network of a configuration: model.weights.
//
// Names are those of the network itself, of a program that has it too
// (models/zoo/names/name_tables.h), or Keras's numbers of its layers. The layer that makes the
// logits stays as it is initialised where the file has it for another number of classes, or not at
// all. Everything else must be there, of the right shape, and nothing more.
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
  // Opens the file and reads what is in it. Throws CheckpointError.
  explicit Pretrained(const std::string& path);

  // Says what goes where; reads no values. Throws CheckpointError with a line for each tensor that
  // is missing, left over or of another shape, and which network the file looks like. Returns a
  // line about what was found.
  std::string match(const Config& config, const ImageShape& image);

  // Reads all values. Throws CheckpointError for one that load() would refuse: not finite, or a
  // negative variance.
  void check() const;

  // Fills the store of the network that was matched. Throws CheckpointError, also for a value that
  // is not finite and for a negative variance.
  void load(const Store& store) const;

 private:
  std::string match_application(const Config& config);

  struct Pair {
    size_t layout, source;  // in layouts_, in source_->tensors()
  };

  std::unique_ptr<WeightSource> source_;
  std::vector<WeightLayout> layouts_;
  std::vector<ForeignWeight> weights_;  // of each layout, in the file
  std::vector<Pair> pairs_;
  double more_variance_ = 0;  // added to running variances
};

}  // namespace tessera
