#include "tessera/models/run/weights.h"

#include <vector>

#include "tessera/engine/storage.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/run/host_weights.h"
#include "tessera/runtime/context.h"

namespace tessera {

size_t weights_copy_bytes(const Tensors& persistent) {
  size_t bytes = 0;
  for (const Tensor& tensor : persistent)
    if (!tensor.device().is_cpu() && tensor.impl()->storage->role != Role::optimizer_state)
      bytes += round_to_alignment(tensor.spec().bytes());
  return bytes;
}

HostWeights::HostWeights(const Store& store)
    : copies_("weights", weights_copy_bytes(store.persistent()), cpu_memory()) {
  std::byte* free = copies_.data();
  for (const Tensors* list : {&store.parameters(), &store.buffers()})
    for (const Tensor& tensor : *list) {
      MutableArray array;
      array.name = persistent_name(tensor);
      array.dtype = name_of(tensor.dtype());
      array.shape.assign(tensor.shape().begin(), tensor.shape().end());
      array.data = tensor.impl()->data();
      if (!tensor.device().is_cpu()) {
        array.data = free;
        free += round_to_alignment(tensor.spec().bytes());
        copied_.push_back({tensor, array.data});
      }
      arrays.push_back(std::move(array));
    }
}

void HostWeights::fetch() const {
  for (const auto& [tensor, host] : copied_)
    context(tensor.device()).copy_to_host(host, tensor.impl()->data(), tensor.spec().bytes());
}

void HostWeights::put() const {
  for (const auto& [tensor, host] : copied_)
    context(tensor.device()).copy_from_host(tensor.impl()->data(), host, tensor.spec().bytes());
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
