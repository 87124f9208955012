// The bytes behind tensors, and what a tensor handle points to. For the engine and the compiler;
// users need tensor.h only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/engine/role.h"
#include "tessera/engine/tensor.h"

namespace tessera {

class Allocator;
class Recorder;
class Store;
struct GradientStop;
struct TapeNode;

// A block of bytes on a device. Every op that overwrites it makes a new version of it.
struct Storage {
  Storage(size_t bytes, Device device) : bytes(bytes), device(device) {}
  ~Storage();  // gives the bytes back to `owner`, if one is set
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data();  // brings a persistent tensor's store to life on first use

  void* pointer = nullptr;
  size_t bytes;
  Device device;
  uint64_t version = 0;
  Role role = Role::external;
  std::string name;            // of what a Store declared: "layer1.0.conv1.weight"
  Allocator* owner = nullptr;  // eager memory; otherwise somebody else owns the bytes
  Store* store = nullptr;      // persistent memory
  std::shared_ptr<void> keep;  // what owns the bytes of a slot
};

struct TensorImpl {
  TensorSpec spec;
  // Concrete: bytes at storage + offset.
  std::shared_ptr<Storage> storage;
  int64_t offset = 0;
  // Under capture: a value of the recorder's graph.
  Recorder* recorder = nullptr;
  int value = -1;
  // Autograd: the tape node that made this tensor, or a leaf whose gradient may be asked for.
  std::shared_ptr<TapeNode> node;
  int output = 0;
  bool leaf = false;
  std::shared_ptr<TensorImpl> snapshot_of;   // the leaf this handle pins a version of
  std::shared_ptr<const GradientStop> stop;  // set: gradients cannot be taken back through it

  bool tracked() const { return leaf || node != nullptr; }
  char* data() const;  // throws under capture
};

// A new block of eager memory (engine/eager.h); throws OutOfMemory. scratch: an op's, for as long
// as it runs.
std::shared_ptr<Storage> allocate_storage(size_t bytes, Device device, bool scratch = false);
Tensor make_tensor(const TensorSpec& spec, std::shared_ptr<Storage> storage, int64_t offset = 0);

}  // namespace tessera
