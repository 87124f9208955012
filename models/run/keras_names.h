// The files that Keras wrote before version 3, and still writes as model.save_weights('x.h5') and
// model.save('x.h5'): which tensor is which stands in attributes, not in its name.
//
//   the root, or model_weights of a whole model    layer_names, in the order of the model
//   the group of a layer                           weight_names, in the order of the layer
//
// A long list is cut into layer_names0, layer_names1 and so on. Names are told as Keras 3 has them,
// "layers/conv2d_1/vars/0": each kind of layer is numbered in the order of the model.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/models/data/formats/hdf5_library.h"

namespace tessera {

bool is_older_keras(const Hdf5File& file);

// The layers, in the order of the model, also those without weights.
std::vector<std::string> older_keras_layers(const Hdf5File& file);

using KerasArrays = std::vector<std::pair<std::string, Hdf5DataInfo>>;

// `arrays`, by their paths in the file, with the names that Keras 3 would give. Throws Error: an
// array that is missing, named twice, or beside the layers.
KerasArrays older_keras_arrays(const Hdf5File& file, const KerasArrays& arrays);

}  // namespace tessera
