// Storage, the bytes of tensors, and TensorImpl, to which a Tensor handle points. For the engine
// and the compiler; users need tensor.h only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/engine/tensor.h"

namespace tessera {

class Allocator;
class Recorder;
class Store;
struct GradientStop;
struct TapeNode;

// The role of a tensor in a training step, for stores, captured graphs, reports and checkpoints.
enum class Role : uint8_t {
  input,            // an argument of the step
  parameter,        // persistent, trained; may have a gradient
  buffer,           // persistent, not trained, part of the model: running statistics
  optimizer_state,  // persistent, of the optimizer: momentum, moments
  external,         // any other tensor that the step reads, again in every run
  constant,         // fixed at capture
  intermediate,     // computed by a node of the graph
};

// A block of bytes on a device. Every op that overwrites it makes a new version.
struct Storage {
  Storage(size_t bytes, Device device) : bytes(bytes), device(device) {}
  ~Storage();  // returns the bytes to `owner`, if one is set
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data();  // materializes the store of a persistent tensor on first use

  void* pointer = nullptr;
  size_t bytes;
  Device device;
  uint64_t version = 0;
  Role role = Role::external;
  std::string name;            // if a Store declared it: "layer1.0.conv1.weight"
  Allocator* owner = nullptr;  // eager memory; nullptr: the bytes have another owner
  Store* store = nullptr;      // persistent memory
  std::shared_ptr<void> keep;  // the owner of a slot's bytes
};

struct TensorImpl {
  TensorSpec spec;
  // Concrete: the bytes at storage + offset.
  std::shared_ptr<Storage> storage;
  int64_t offset = 0;
  // Under capture: a value of the recorder's graph.
  Recorder* recorder = nullptr;
  int value = -1;
  // Autograd: the tape node that made this tensor, or a leaf, which may have a gradient.
  std::shared_ptr<TapeNode> node;
  int output = 0;
  bool leaf = false;
  std::shared_ptr<TensorImpl> snapshot_of;   // the leaf of which this handle is a snapshot
  std::shared_ptr<const GradientStop> stop;  // set: no gradient flows through it

  bool tracked() const { return leaf || node != nullptr; }
  char* data() const;  // throws under capture
};

// Allocates a block of eager memory (engine/eager.h). Throws OutOfMemory. `scratch` marks memory
// that an op needs only while it runs.
std::shared_ptr<Storage> allocate_storage(size_t bytes, Device device, bool scratch = false);
Tensor make_tensor(const TensorSpec& spec, std::shared_ptr<Storage> storage, int64_t offset = 0);

}  // namespace tessera
