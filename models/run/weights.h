// Weights of a store in a file: what `weights.safetensors` of a run folder is, for programs of
// one's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/engine/store.h"

namespace tessera {

// What saving and loading take of the host's memory: a copy of the values that stand on a GPU.
// `persistent`: of a store, optimizer state included, which does not count.
size_t weights_copy_bytes(const Tensors& persistent);

// Parameters and running statistics of the store, by their names, without optimizer state.
// A safetensors file, one tensor each; it is the old one or the whole new one at any moment.
// `step`: after how many steps of training, and `inference`: what is needed besides to use them
// (docs/inference.md), its metadata. Throw CheckpointError, which names the file.
void save_weights(Store& store, const std::string& path, std::optional<int64_t> step = {},
                  const std::string& inference = "");
// The file must hold exactly these names, shapes and dtypes; otherwise nothing has been changed and
// the error lists each that is missing, too many or different.
void load_weights(Store& store, const std::string& path);

}  // namespace tessera
