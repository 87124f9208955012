// Names and layouts of a network's weights in files of other programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"
#include "tessera/models/run/weight_source.h"
#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

class Module;  // layers/module.h
class Store;   // engine/store.h

// The layout of a weight in the network and in files of other programs, which use PyTorch's
// dimension order and last parts of names. Derived from the graph: the convolution or matmul that
// reads a tensor determines the tensor's kind.
//
//                                              Tessera                     PyTorch
//   filters                                    OHWI                        OIHW
//   columns of a linear layer after flatten    height, width, channels     channels first
//   scale and shift of a normalisation         gamma and beta              weight and bias
struct WeightLayout {
  std::string name;            // in the network
  std::vector<int64_t> shape;  // in the network
  // The network has [outer, pixels, channels], the file [outer, channels, pixels].
  int64_t outer = 1, channels = 1, pixels = 1;
  std::vector<int64_t> foreign_shape;  // in the file
  int64_t flattened = 0;  // channels of the flattened image that gives the columns; 0: none
  int64_t groups = 0;     // filters: groups of the convolution; else 0
  bool head = false;      // belongs to the layer that computes the logits

  int64_t elements() const { return outer * channels * pixels; }
  // Returns true if the file's tensor may have this shape: extents of 1 do not count, and a
  // flattened image may keep its dimensions.
  bool takes(const std::vector<int64_t>& theirs) const;
};

// Returns the layouts of all parameters and statistics, in the order of the store, for images of
// this shape.
std::vector<WeightLayout> weight_layouts(const Module& network, const Store& store,
                                         const ImageShape& image, int64_t classes);

// Returns "layer1.0.bn1" for "layer1.0.bn1.gamma"; the whole name if it has no dot.
std::string module_of(const std::string& name);

struct ForeignWeight {
  std::string name;
  std::vector<int64_t> shape;
  // The file has [outer, middle, inner], the network [outer, inner, middle]. For Keras, inner is
  // the number of outputs, which come last.
  int64_t outer = 1, middle = 1, inner = 1;

  // Returns the index in the network of element `i` of the file.
  int64_t place(int64_t i) const {
    const int64_t within = i % (middle * inner);
    return i - within + within % inner * middle + within / inner;
  }
  std::vector<float> in_their_order(const std::vector<float>& ours) const;
};

// Returns the weight in the file for each layout. `table` has the names of PyTorch programs. Keras
// numbers the layers of each kind: the second convolution is layers/conv2d_1, its bias .../vars/1.
std::vector<ForeignWeight> foreign_weights(WeightForm form,
                                           const std::vector<WeightLayout>& layouts,
                                           const NameTable& table);

// Returns a sentence, with a leading space, that names the zoo network most like the file. "" if no
// network shares more than 90 % of its tensors and of the file's, or if that network is `but`.
// Builds every network without tensor memory.
std::string what_weights_look_like(const WeightSource& source, const std::string& but);

}  // namespace tessera
