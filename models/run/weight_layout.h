// How the weights of a network stand in files of other programs: PyTorch's order of dimensions and
// the last parts of its names. Read from the network itself: what a convolution or a product reads
// says what a tensor is.
//
//   filters    OHWI here, OIHW there
//   columns of a linear layer after flatten    height, width, channels here; channels first there
//   scale and shift of a normalisation         gamma and beta here; weight and bias there
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tessera {

class Module;  // layers/module.h
class Store;   // engine/store.h

struct WeightLayout {
  std::string name;            // ours
  std::vector<int64_t> shape;  // ours
  // Ours is [outer, pixels, channels] where theirs is [outer, channels, pixels].
  int64_t outer = 1, channels = 1, pixels = 1;
  std::vector<int64_t> foreign_shape;  // theirs
  int64_t flattened = 0;  // channels of the image whose values are the columns; 0: there is none
  int64_t groups = 0;     // of filters: of channels that are convolved by themselves; else 0
  bool head = false;      // of the layer that makes the logits

  int64_t elements() const { return outer * channels * pixels; }
  // Whether theirs may have this shape: extents of 1 do not count, and a flattened image may have
  // its dimensions still.
  bool takes(const std::vector<int64_t>& theirs) const;
};

// Of all parameters and statistics, in the order of the store. For images of this shape.
std::vector<WeightLayout> weight_layouts(const Module& network, const Store& store, int64_t height,
                                         int64_t width, int64_t channels, int64_t classes);

// "layer1.0.bn1" of "layer1.0.bn1.gamma"; the whole name where no dot stands in it.
std::string module_of(const std::string& name);

// "layer1.0.bn1.gamma" is "layer1.0.bn1.weight" in PyTorch; but a gamma without a beta beside it,
// no normalisation's, keeps its name. `all`: the names of the network.
std::string with_foreign_leaf(const std::string& name, const std::set<std::string>& all);

}  // namespace tessera
