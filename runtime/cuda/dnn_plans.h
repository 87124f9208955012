// How cuDNN would compute a graph of its operations: asks it for its ways on a GPU, present or only
// described, leaves out those that break the rules, and finalises the first of the others.
#pragma once

#include <string>
#include <vector>

#include "tessera/runtime/cuda/dnn.h"
#include "tessera/runtime/cuda/facts.h"

namespace tessera {

// What a way to compute must keep to.
struct DnnRules {
  size_t workspace_cap = size_t{256} << 20;  // bytes of scratch at most
  bool deterministic = true;                 // the same bits in every run
  bool tf32 = false;  // tensor cores may round the inputs of float32 products to 10 bits
  bool operator==(const DnnRules&) const = default;
};

// A way that was taken: what runs it, its scratch, and what cuDNN notes about its numbers.
struct DnnPlan {
  DnnDescriptor plan;
  int64_t engine = -1;         // cuDNN's number
  size_t workspace_bytes = 0;  // aligned as kDnnAlignment
  uint32_t notes = 0;          // bit i: cudnnBackendNumericalNote_t i

  std::string json() const;        // from which dnn_plan_of() makes it again
  std::string notes_text() const;  // "tensor_core winograd", or "-"
};

// Blocks of tensors and scratch start at such multiples wherever nothing else is said; views of
// them may not.
inline constexpr int64_t kDnnAlignment = 16;

// The ways for a finalised graph of operations that keep to the rules, the one that cuDNN takes for
// the fastest first; at most `most`, none where cuDNN has none. Throws DeviceError where it cannot
// be asked.
std::vector<DnnPlan> dnn_plans(const DnnDescriptor& graph, const DeviceFacts& facts,
                               const DnnRules& rules, size_t most = 1);
// A plan from what json() gave. Throws DeviceError where this cuDNN or GPU does not take it.
DnnPlan dnn_plan_of(const std::string& json, const DeviceFacts& facts);

// What cuDNN says of a GPU that is there, for facts_of_description(); it differs from the
// descriptions in runtime/cuda/profiles/ in being true.
std::string dnn_description(int index);

}  // namespace tessera
