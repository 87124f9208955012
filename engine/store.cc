#include "tessera/engine/store.h"

#include <fmt/format.h>

#include <cmath>

#include "tessera/engine/recorder.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

namespace tessera {
namespace {

template <class T>
void fill(T* values, int64_t count, const Initializer& init, uint64_t key) {
  RandomSequence random(key, 0);
  for (int64_t i = 0; i < count; ++i) {
    double value = init.a;
    if (init.kind == Initializer::Kind::uniform) value = init.a * (2 * random.uniform() - 1);
    if (init.kind == Initializer::Kind::normal) value = init.a * random.normal();
    values[i] = static_cast<T>(value);
  }
}

void initialize(const Tensor& tensor, const Initializer& init, uint64_t key) {
  int64_t count = tensor.elements();
  std::vector<std::byte> host(tensor.spec().bytes());
  switch (tensor.dtype()) {
    case DType::f32: fill(reinterpret_cast<float*>(host.data()), count, init, key); break;
    case DType::f64: fill(reinterpret_cast<double*>(host.data()), count, init, key); break;
    case DType::u8: fill(reinterpret_cast<uint8_t*>(host.data()), count, init, key); break;
    case DType::i32: fill(reinterpret_cast<int32_t*>(host.data()), count, init, key); break;
    case DType::i64: fill(reinterpret_cast<int64_t*>(host.data()), count, init, key); break;
  }
  const auto& storage = tensor.impl()->storage;
  context(tensor.device()).copy_from_host(storage->pointer, host.data(), host.size());
  ++storage->version;
}

}  // namespace

Initializer Initializer::he_normal(int64_t fan_in) {
  return normal(std::sqrt(2.0 / static_cast<double>(fan_in)));
}

Store::~Store() {
  for (Entry& entry : entries_) {
    entry.tensor.impl()->storage->pointer = nullptr;
    entry.tensor.impl()->storage->store = nullptr;
  }
}

Tensor Store::declare(const std::string& name, const Shape& shape, Initializer init, DType dtype,
                      Role role) {
  if (current_recorder() != nullptr)
    throw Error(fmt::format("store: '{}' cannot be declared while a step is being captured; build "
                            "the model and the optimizer before the step runs",
                            name));
  if (materialized())
    throw Error(fmt::format("store: '{}' comes too late, the tensors already have their bytes; "
                            "declare everything before the first step",
                            name));
  if (find(name).defined())
    throw Error(fmt::format("store: there is a tensor '{}' already; names must differ", name));
  TensorSpec spec{dtype, shape, current_device()};
  if (!entries_.empty() && entries_.front().tensor.device() != spec.device)
    throw DeviceError(fmt::format("store: '{}' is declared on {}, the others on {}; one store has "
                                  "one device",
                                  name, spec.device.name(),
                                  entries_.front().tensor.device().name()));
  auto storage = std::make_shared<Storage>(spec.bytes(), spec.device);
  storage->role = role;
  storage->name = name;
  storage->store = this;
  Tensor tensor = make_tensor(spec, storage);
  entries_.push_back({tensor, init, bytes_});
  bytes_ += round_to_alignment(spec.bytes());
  return tensor;
}

Tensor Store::parameter(const std::string& name, const Shape& shape, Initializer init,
                        std::optional<DType> dtype) {
  Tensor tensor = declare(name, shape, init, dtype.value_or(dtype_), Role::parameter);
  tensor.impl()->leaf = true;
  parameters_.push_back(tensor);
  return tensor;
}

Tensor Store::state(const std::string& name, const Shape& shape, Initializer init,
                    std::optional<DType> dtype) {
  states_.push_back(declare(name, shape, init, dtype.value_or(dtype_), Role::state));
  return states_.back();
}

Tensor Store::find(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.tensor.impl()->storage->name == name) return entry.tensor;
  return {};
}

void Store::materialize() {
  if (materialized() || entries_.empty()) return;
  RawMemory& memory = context(entries_.front().tensor.device()).memory();
  materialize(Region("persistent", bytes_, memory));
}

void Store::materialize(Region region) {
  if (materialized())
    throw Error("store: the tensors already have their bytes; bring memory before the first use");
  if (region.bytes() < bytes_)
    throw OutOfMemory(fmt::format("store: the region '{}' has {} bytes, the persistent tensors "
                                  "need {}",
                                  region.label(), region.bytes(), bytes_));
  region_ = std::move(region);
  materialized_ = true;
  for (Entry& entry : entries_)
    entry.tensor.impl()->storage->pointer = region_.data() + entry.offset;
  reset();
}

void Store::reset() {
  for (const Entry& entry : entries_) {
    const std::string& name = entry.tensor.impl()->storage->name;
    initialize(entry.tensor, entry.init, random_key(seed_, name));
  }
}

}  // namespace tessera
