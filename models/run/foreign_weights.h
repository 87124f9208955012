// What the weights of a network are called in a file of one form, and how they lie in it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tessera/models/run/weight_source.h"
#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

class Module;  // layers/module.h
class Store;   // engine/store.h

// How the weights of a network stand in files of other programs: PyTorch's order of dimensions and
// the last parts of its names. Read from the network itself: what a convolution or a product reads
// says what a tensor is.
//
//   filters    OHWI here, OIHW there
//   columns of a linear layer after flatten    height, width, channels here; channels first there
//   scale and shift of a normalisation         gamma and beta here; weight and bias there
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

// Returns those of all parameters and statistics, in the order of the store, for images of this
// shape.
std::vector<WeightLayout> weight_layouts(const Module& network, const Store& store, int64_t height,
                                         int64_t width, int64_t channels, int64_t classes);

// "layer1.0.bn1" of "layer1.0.bn1.gamma"; the whole name where no dot stands in it.
std::string module_of(const std::string& name);

// "layer1.0.bn1.gamma" is "layer1.0.bn1.weight" in PyTorch; but a gamma without a beta beside it,
// no normalisation's, keeps its name. `all`: the names of the network.
std::string with_foreign_leaf(const std::string& name, const std::set<std::string>& all);

struct ForeignWeight {
  std::string name;
  std::vector<int64_t> shape;
  // Theirs is [outer, middle, inner] where ours is [outer, inner, middle], or, of Keras, whose
  // outputs come last, the other way round.
  int64_t outer = 1, middle = 1, inner = 1;

  // Where their element `i` stands in ours.
  int64_t place(int64_t i) const {
    const int64_t within = i % (middle * inner);
    return i - within + within % inner * middle + within / inner;
  }
  std::vector<float> in_their_order(const std::vector<float>& ours) const;
};

// For each of the layouts. `table`: of PyTorch's programs. Names of Keras go by the order of the
// layers of each kind: the second convolution is layers/conv2d_1, its bias .../vars/1.
std::vector<ForeignWeight> foreign_weights(WeightForm form,
                                           const std::vector<WeightLayout>& layouts,
                                           const NameTable& table);

// The network of the zoo, not `but`, that has nine tenths of the file's tensors, and the file of
// its: a sentence that begins with a space; "" where there is none. Builds every network, without
// its bytes.
std::string what_weights_look_like(const WeightSource& source, const std::string& but);

}  // namespace tessera
