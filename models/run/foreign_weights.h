// What the weights of a network are called in a file of one form, and how they lie in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/run/weight_layout.h"
#include "tessera/models/run/weight_source.h"
#include "tessera/models/zoo/names/name_tables.h"

namespace tessera {

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

}  // namespace tessera
