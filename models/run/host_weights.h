// HostWeights: parameters and running statistics of a store with their values on the host. Values
// on the CPU are used in place, values on a GPU are copied.
#pragma once

#include <utility>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/memory/regions.h"
#include "tessera/models/run/array_file.h"

namespace tessera {

class HostWeights {
 public:
  explicit HostWeights(const Store& store);
  void fetch() const;  // from the GPU
  void put() const;    // to the GPU

  std::vector<MutableArray> arrays;

 private:
  Region copies_;
  std::vector<std::pair<Tensor, void*>> copied_;
};

}  // namespace tessera
