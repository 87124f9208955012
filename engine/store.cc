#include "tessera/engine/store.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "tessera/engine/lines.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/storage.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

// Elements of one task, an even number because two uniform numbers share one counter; a normal
// number uses a whole one.
constexpr int64_t kPiece = 4096;

// Computes the elements [first, first + values.size()) of a new tensor.
template <class T>
void make_values(std::span<T> values, int64_t first, const Initializer& init, uint64_t key) {
  using Kind = Initializer::Kind;
  if (init.kind == Kind::constant) {
    std::ranges::fill(values, static_cast<T>(init.a));
    return;
  }
  const bool normal = init.kind == Kind::normal;
  RandomSequence random(key, 0, static_cast<uint64_t>(normal ? first : first / 2));
  for (T& value : values)
    value = static_cast<T>(normal ? init.a * random.normal() : init.a * (2 * random.uniform() - 1));
}

// Runs make_values() on all threads.
template <class T>
void make_all(std::span<T> values, int64_t first, const Initializer& init, uint64_t key) {
  for_chunks<kPiece>(cpu_context().pool(), std::ssize(values), [&](int64_t begin, int64_t size) {
    make_values(values.subspan(static_cast<size_t>(begin), static_cast<size_t>(size)),
                first + begin, init, key);
  });
}

// Fills a tensor; on a GPU in chunks, through host memory.
template <class T>
void fill(const Tensor& tensor, const Initializer& init, uint64_t key) {
  Context& ctx = context(tensor.device());
  const std::span<T> all(static_cast<T*>(tensor.impl()->storage->pointer),
                         static_cast<size_t>(tensor.elements()));
  if (ctx.device().is_cpu()) return make_all(all, 0, init, key);
  constexpr int64_t kCopied = 64 * kPiece;
  std::vector<T> host(static_cast<size_t>(std::min(kCopied, tensor.elements())));
  for (int64_t first = 0; first < tensor.elements(); first += kCopied) {
    const auto count = static_cast<size_t>(std::min(kCopied, tensor.elements() - first));
    make_all(std::span(host).first(count), first, init, key);
    ctx.copy_from_host(all.data() + first, host.data(), count * sizeof(T));
  }
}

// Sets the middle of channel q of filter q < min(out, in) to 1, the rest of that filter to 0.
template <class T>
void make_identity(const Tensor& filters) {
  const Shape& shape = filters.shape();
  const int64_t in = shape.back(), size = shape.elements(1, shape.rank());
  const int64_t middle = size / in / 2;
  std::vector<T> filter(static_cast<size_t>(size));
  auto* all = static_cast<T*>(filters.impl()->storage->pointer);
  for (int64_t q = 0; q < std::min(shape[0], in); ++q) {
    filter[static_cast<size_t>(middle * in + q)] = T(1);
    context(filters.device())
        .copy_from_host(all + q * size, filter.data(), filter.size() * sizeof(T));
    filter[static_cast<size_t>(middle * in + q)] = T(0);
  }
}

void initialize(const Tensor& tensor, const Initializer& init, uint64_t key) {
  visit_dtype(tensor.dtype(), [&](auto zero) {
    fill<decltype(zero)>(tensor, init, key);
    if (init.identity) make_identity<decltype(zero)>(tensor);
  });
  ++tensor.impl()->storage->version;
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
    throw Error(
        fmt::format("store: '{}' cannot be declared while a step is being captured; build "
                    "the model and the optimizer before the step runs",
                    name));
  if (materialized())
    throw Error(
        fmt::format("store: cannot declare '{}': the store is already materialized; "
                    "declare all tensors before the first step",
                    name));
  if (by_name_.count(name) != 0)
    throw Error(fmt::format("store: a tensor '{}' already exists; use another name", name));
  TensorSpec spec{dtype, shape, current_device()};
  if (!entries_.empty() && entries_.front().tensor.device() != spec.device)
    throw DeviceError(fmt::format(
        "store: '{}' is declared on {}, but the other tensors are on {}; use one store per device",
        name, spec.device.name(), entries_.front().tensor.device().name()));
  size_t bytes = bytes_;
  const size_t rounded = round_to_alignment(spec.bytes(), alignment_of(spec.device));
  if (__builtin_add_overflow(bytes, rounded, &bytes))
    throw ShapeError(fmt::format(
        "store: with '{}' {} the store has more bytes than 64 bits can count", name, spec.text()));
  auto storage = std::make_shared<Storage>(spec.bytes(), spec.device);
  storage->role = role;
  storage->name = name;
  storage->store = this;
  Tensor tensor = make_tensor(spec, storage);
  by_name_[name] = entries_.size();
  entries_.push_back({tensor, init, bytes_, false, name});
  bytes_ = bytes;
  return tensor;
}

Tensor Store::parameter(const std::string& name, const Shape& shape, Initializer init,
                        std::optional<DType> dtype) {
  if (in_averages_) return average_of(name, shape, dtype.value_or(dtype_));
  Tensor tensor = declare(name, shape, init, dtype.value_or(dtype_), Role::parameter);
  tensor.impl()->leaf = true;
  parameters_.push_back(tensor);
  return tensor;
}

Tensor Store::buffer(const std::string& name, const Shape& shape, Initializer init,
                     std::optional<DType> dtype) {
  if (in_averages_) return average_of(name, shape, dtype.value_or(dtype_));
  buffers_.push_back(declare(name, shape, init, dtype.value_or(dtype_), Role::buffer));
  return buffers_.back();
}

Tensor Store::optimizer_state(const std::string& name, const Shape& shape, Initializer init,
                              std::optional<DType> dtype) {
  optimizer_states_.push_back(
      declare(name, shape, init, dtype.value_or(dtype_), Role::optimizer_state));
  return optimizer_states_.back();
}

Tensor Store::average_of(const std::string& name, const Shape& shape, DType dtype) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || entries_[found->second].tensor.shape() != shape ||
      entries_[found->second].tensor.dtype() != dtype)
    throw Error(fmt::format(
        "store: '{}' cannot be averaged: no tensor has this name, shape {} and this dtype", name,
        shape.text()));
  const Entry& of = entries_[found->second];
  const Tensor value = of.tensor;
  if (!is_float(dtype) || of.frozen) return value;
  const Tensor average = optimizer_state("ema." + name, shape, of.init, dtype);
  entries_.back().key = name;
  ema_pairs_.push_back({value, average});
  return average;
}

void Store::freeze(const std::string& name) {
  const auto same = [&](const Tensor& tensor) { return tensor.impl()->storage->name == name; };
  const auto found = std::ranges::find_if(parameters_, same);
  if (found == parameters_.end() || materialized())
    throw Error(fmt::format(
        "store: '{}' cannot be frozen: {}", name,
        materialized() ? "the store is already materialized" : "no parameter has this name"));
  Entry& entry = entries_[by_name_.at(name)];
  entry.frozen = true;
  entry.tensor.impl()->leaf = false;
  entry.tensor.impl()->storage->role = Role::buffer;
  buffers_.push_back(entry.tensor);
  parameters_.erase(found);
}

void Store::swap_ema() {
  materialize();
  for (const EmaPair& pair : ema_pairs_)
    std::swap(pair.value.impl()->storage->pointer, pair.average.impl()->storage->pointer);
}

Tensors Store::persistent() const {
  Tensors all;
  for (const Tensors* list : {&parameters_, &buffers_, &optimizer_states_})
    all.insert(all.end(), list->begin(), list->end());
  return all;
}

Tensor Store::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? Tensor() : entries_[found->second].tensor;
}

void Store::materialize() {
  if (materialized() || entries_.empty()) return;
  RawMemory& memory = context(entries_.front().tensor.device()).memory();
  try {
    materialize(Region("persistent", bytes_, memory));
  } catch (OutOfMemory& error) {
    error.append("\nthe largest persistent tensors:" + largest());
    throw;
  }
}

std::string Store::largest() const {
  std::vector<const Storage*> order;
  for (const Entry& entry : entries_) order.push_back(entry.tensor.impl()->storage.get());
  std::ranges::stable_sort(order, std::greater(), &Storage::bytes);
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, order.size()); ++i)
    text += fmt::format("\n  {:>12}  {}", byte_text(static_cast<int64_t>(order[i]->bytes)),
                        order[i]->name);
  return text;
}

void Store::materialize(Region region) {
  if (materialized())
    throw Error("store: the store is already materialized; provide memory before the first use");
  if (region.bytes() < bytes_)
    throw OutOfMemory(
        fmt::format("store: the region '{}' has {} bytes, but the persistent tensors need {}",
                    region.label(), region.bytes(), bytes_));
  region_ = std::move(region);
  materialized_ = true;
  for (Entry& entry : entries_)
    entry.tensor.impl()->storage->pointer = region_.data() + entry.offset;
  reset();
}

void Store::reset() {
  for (const Entry& entry : entries_)
    initialize(entry.tensor, entry.init, random_key(seed_, entry.key));
}

}  // namespace tessera
