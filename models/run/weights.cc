#include "tessera/models/run/weights.h"

#include <vector>

#include "tessera/engine/storage.h"
#include "tessera/layers/optimizer.h"
#include "tessera/models/run/weights_file.h"

namespace tessera {
namespace {

template <class ArrayType>
std::vector<ArrayType> arrays_of(const Store& store) {
  std::vector<ArrayType> arrays;
  for (const Tensors* list : {&store.parameters(), &store.buffers()}) {
    for (const Tensor& tensor : *list) {
      ArrayType array;
      array.name = persistent_name(tensor);
      array.dtype = name_of(tensor.dtype());
      array.shape.assign(tensor.shape().begin(), tensor.shape().end());
      array.data = tensor.impl()->data();
      arrays.push_back(std::move(array));
    }
  }
  return arrays;
}

}  // namespace

void save_weights(Store& store, const std::string& path, std::optional<int64_t> step,
                  const std::string& inference) {
  write_weights(path, arrays_of<ConstArray>(store), step, inference);
}

void load_weights(Store& store, const std::string& path) {
  read_weights(path, arrays_of<MutableArray>(store));
}

}  // namespace tessera
