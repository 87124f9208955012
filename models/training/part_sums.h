// PartSums: adds the losses, counts and gradients of the parts of a batch (train.accumulate), in
// this process and then over all processes that share the batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/layers/ops/exchange.h"

namespace tessera {

// The results of a part, or their sums for several parts.
struct BatchResults {
  Tensor loss, correct;  // float32 []
  Tensors gradients;     // one for each parameter, in order
};

// Sums form the tree of runtime/exchange/part_tree.h. In a process they are made as the digits of a
// binary counter are carried: when part k is done, one addition for each 1 bit at the end of k, so
// at most log2(parts) sums wait. A gradient is added as soon as it is complete; in the last part
// of a process it is sent then, in buckets, while the backward pass goes on.
class PartSums {
 public:
  // `parameters` are those that have gradients. Without an exchange this process has all parts.
  PartSums(int64_t parts, const Tensors& parameters, std::shared_ptr<Exchange> exchange);

  PartRange own() const { return own_; }
  // Computes part k. compute(sink) returns its loss and counts, and passes its gradients to sink.
  // Call it for all own parts in order.
  void add(int64_t k, const std::function<BatchResults(const GradientSink& sink)>& compute);
  // Returns the sums over all parts, and applies the updates of running statistics in the order of
  // parts. Waits for the other processes.
  BatchResults total();

 private:
  struct Bucket {
    size_t first, last, missing;  // parameters; those whose gradients are to come
    Exchanged sum = {};
  };
  Tensor carried(const std::function<Tensor&(BatchResults&)>& value_of, Tensor value);
  void complete(size_t parameter, Tensors& last);
  void start_statistics();
  void update_statistics();

  const int64_t parts_;
  const std::shared_ptr<Exchange> exchange_;
  const PartRange own_;
  std::vector<PartNode> nodes_;
  std::vector<BatchResults> sums_;  // one for each node
  std::ptrdiff_t kept_ = 0;         // sums to which the part at hand is not added
  std::vector<Bucket> buckets_;
  std::vector<std::vector<DeferredUpdate>> updates_;  // by own part
  Tensors own_statistics_;                            // the values of these updates, by own part
  Exchanged statistics_ = {};                         // those of the other parts
  const AbandonOnError abandon_;  // the last: destroyed before the memory of a message
};

}  // namespace tessera
