// Whose weights a file holds.
#pragma once

#include <string>

#include "tessera/models/run/weight_source.h"

namespace tessera {

// The network of the zoo, not `but`, that has nine tenths of the file's tensors, and the file of
// its: a sentence that begins with a space; "" where there is none. Builds every network, without
// its bytes.
std::string what_weights_look_like(const WeightSource& source, const std::string& but);

}  // namespace tessera
