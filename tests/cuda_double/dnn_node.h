// Descriptors of the double of cuDNN: their attributes, and finalization.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dnn_conv.h"
#include <cudnn_graph.h>

namespace cuda_double {

// Engines in the order in which they are proposed.
enum DnnEngine : int64_t { kEngineInAnyOrder, kEngineWithWorkspace, kEnginePlain, kEngineCount };

struct DnnPlanned {
  int64_t engine = kEnginePlain;
  Conv conv;
  size_t workspace() const;
};

struct DnnNode;

struct DnnAttribute {
  cudnnBackendAttributeType_t type;
  std::vector<char> bytes;
  std::vector<std::shared_ptr<DnnNode>> nodes;
};

struct DnnNode {
  cudnnBackendDescriptorType_t type;
  bool finalised = false;
  std::map<cudnnBackendAttributeName_t, DnnAttribute> attributes;
  DnnPlanned plan;  // for an operation and all that is made of it, as far as known

  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> all(found->second.bytes.size() / sizeof(T));
    std::memcpy(all.data(), found->second.bytes.data(), all.size() * sizeof(T));
    return all;
  }
  std::vector<int64_t> integers(cudnnBackendAttributeName_t name) const {
    return values<int64_t>(name);
  }
  const DnnNode* node(cudnnBackendAttributeName_t name) const {  // nullptr if not set
    const auto found = attributes.find(name);
    return found == attributes.end() || found->second.nodes.empty() ? nullptr
                                                                    : found->second.nodes[0].get();
  }
};

// Checks the attributes and adds those that can be queried. `text` receives the fault.
cudnnStatus_t finalise(DnnNode& node, std::string* text);

}  // namespace cuda_double
