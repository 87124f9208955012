// AsynchronousOp: an op whose inputs and outputs are used while later nodes run, until another op
// waits (layers/ops/exchange.h).
#pragma once

namespace tessera {

// These values keep their place until then, and the op runs once: neither it nor the producers of
// its inputs are recomputed.
class AsynchronousOp {
 protected:
  virtual ~AsynchronousOp() = default;
};

}  // namespace tessera
