#include "tessera/models/run/host_weights.h"

#include "tessera/engine/storage.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/run/weights.h"
#include "tessera/runtime/context.h"

namespace tessera {

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

}  // namespace tessera
