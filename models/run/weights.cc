#include "tessera/models/run/weights.h"

#include <vector>

#include "tessera/engine/storage.h"
#include "tessera/memory/regions.h"
#include "tessera/models/run/host_weights.h"

namespace tessera {
size_t weights_copy_bytes(const Tensors& persistent) {
  size_t bytes = 0;
  for (const Tensor& tensor : persistent)
    if (!tensor.device().is_cpu() && tensor.impl()->storage->role != Role::optimizer_state)
      bytes += round_to_alignment(tensor.spec().bytes());
  return bytes;
}

void save_weights(Store& store, const std::string& path, std::optional<int64_t> step,
                  const std::string& inference) {
  const HostWeights weights(store);
  weights.fetch();
  std::vector<ConstArray> arrays;
  for (const MutableArray& array : weights.arrays) arrays.push_back({array, array.data});
  write_weights(path, arrays, step, inference);
}

void load_weights(Store& store, const std::string& path) {
  const HostWeights weights(store);
  read_weights(path, weights.arrays);
  weights.put();
}

}  // namespace tessera
