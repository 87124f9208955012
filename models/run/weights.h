// Saves and loads the weights of a store, in the format of `weights.safetensors` in a run folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/engine/store.h"

namespace tessera {

// Returns the host memory that saving and loading allocate: a copy of the values on a GPU.
// `persistent` may include optimizer state, which does not count.
size_t weights_copy_bytes(const Tensors& persistent);

// Writes the parameters and running statistics of the store by name, without optimizer state, as
// safetensors. `path` is the old or the complete new file at any time. The metadata has `step`, the
// number of training steps done, and `inference`, the inference description (docs/inference.md).
// Throws CheckpointError, which names the file.
void save_weights(Store& store, const std::string& path, std::optional<int64_t> step = {},
                  const std::string& inference = "");
// Reads weights into the store. Requires exactly these names, shapes and dtypes in the file;
// else throws CheckpointError, which lists each missing, extra or different tensor, and changes
// nothing.
void load_weights(Store& store, const std::string& path);

}  // namespace tessera
