// Collective ops over the processes of a training (runtime/exchange/). Each is a pair of nodes: one
// starts the exchange, the other waits for it, so that the nodes between run meanwhile. Both are on
// the CPU; tensors of a GPU are copied there and back (a program's CPU values are in pinned
// memory).
#pragma once

#include <memory>

#include "tessera/engine/op.h"
#include "tessera/runtime/exchange/exchange.h"

namespace tessera {

// An exchange that has been started.
struct Exchanged {
  // Waits where it is called in the step, and returns the results.
  Tensors wait() const;

  OpPtr op;
  Tensors tensors;  // the results; the memory that messages arrive in; what is sent
  Device device;    // the results are copied to it
};

// Starts to add float32 tensors over all parts of a batch. own[t] has this process's sums of tensor
// t, those of PartTree::cover() of its parts. All processes call it with the same tags in one
// order; a tag is used once in a step. Result t has the shape of own[t][0]. Throws ShapeError for
// another dtype.
inline constexpr size_t kMaxFolded = 16;  // tensors
Exchanged start_fold(const std::shared_ptr<Exchange>& exchange, int tag, int64_t parts,
                     const std::vector<Tensors>& own);

// Starts to give all processes the float32 values [n] of each part; own[i] are those of this
// process's parts. The results are those of the other parts, in order.
Exchanged start_spread(const std::shared_ptr<Exchange>& exchange, int tag, int64_t parts,
                       const Tensors& own);

}  // namespace tessera
