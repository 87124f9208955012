// Store: the persistent tensors of a program: parameters, optimizer state, running statistics.
//
// They are declared first (name, shape, initialiser) and get their bytes all at once, in one block,
// when the first of them is touched or materialize() is called. Values depend on (seed, name)
// alone. Not thread-safe. The tensors must not outlive their store's values: the block goes with
// the store.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/engine/role.h"
#include "tessera/engine/tensor.h"
#include "tessera/memory/regions.h"

namespace tessera {

// Fills the values of a new tensor.
struct Initializer {
  enum class Kind : uint8_t { constant, uniform, normal } kind = Kind::constant;
  double a = 0;  // the constant, the bound of U(-a, a), the stddev of N(0, a)
  // Of filters [out, .., in] with a middle: the first ones, as many as there are input channels,
  // hand on one channel each.
  bool identity = false;
  static Initializer zeros() { return {Kind::constant, 0}; }
  static Initializer ones() { return {Kind::constant, 1}; }
  static Initializer constant(double value) { return {Kind::constant, value}; }
  static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
  static Initializer normal(double stddev) { return {Kind::normal, stddev}; }
  // He et al. 2015: N(0, sqrt(2 / fan_in)).
  static Initializer he_normal(int64_t fan_in);
  Initializer with_identity() const { return {kind, a, true}; }
};

class Store {
 public:
  // `dtype` is what parameters have unless they say otherwise (float64 for gradient checks).
  explicit Store(uint64_t seed = 0, DType dtype = DType::f32) : seed_(seed), dtype_(dtype) {}
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // A trained tensor; gradients may be asked for. Throws Error: name taken, bytes already given, or
  // under capture.
  Tensor parameter(const std::string& name, const Shape& shape, Initializer init,
                   std::optional<DType> dtype = {});
  // A tensor of the model that steps update but gradients do not reach: running statistics.
  Tensor buffer(const std::string& name, const Shape& shape, Initializer init,
                std::optional<DType> dtype = {});
  // What an optimizer keeps from step to step; saved in checkpoints, not among the weights.
  Tensor optimizer_state(const std::string& name, const Shape& shape, Initializer init,
                         std::optional<DType> dtype = {});
  DType dtype() const { return dtype_; }

  // Makes a buffer of a parameter: no gradient reaches it, and it stays among the weights. Before
  // the tensors have their bytes, and before anything reads parameters(). Throws Error: no such
  // parameter.
  void freeze(const std::string& name);

  // While one lives, parameter() and buffer() give an optimizer state "ema.<name>" beside the
  // tensor of that name, which must be there, with its initial value: building the model again then
  // gives one that reads averages (layers/optimizers/ema.h). What is no floating point, or frozen,
  // is the tensor itself.
  class EmaScope {
   public:
    explicit EmaScope(Store& store) : store_(store) { store_.in_averages_ = true; }
    ~EmaScope() { store_.in_averages_ = false; }
    EmaScope(const EmaScope&) = delete;
    EmaScope& operator=(const EmaScope&) = delete;

   private:
    Store& store_;
  };
  struct EmaPair {
    Tensor value, average;
  };
  // In the order of declaration.
  const std::vector<EmaPair>& ema_pairs() const { return ema_pairs_; }
  // Exchanges values and averages, without moving any. The tensors must have their bytes.
  void swap_ema();

  // In the order of declaration.
  const Tensors& parameters() const { return parameters_; }
  const Tensors& buffers() const { return buffers_; }
  const Tensors& optimizer_states() const { return optimizer_states_; }
  // All of them, in this order: what a checkpoint keeps.
  Tensors persistent() const;
  Tensor find(const std::string& name) const;  // undefined when there is none

  // The size of the block: each tensor rounded up to alignment_of(device).
  size_t bytes() const { return bytes_; }
  bool materialized() const { return materialized_; }
  // Gives all tensors their bytes and values: from the device's memory, or in the caller's region
  // (at least bytes() bytes).
  void materialize();
  void materialize(Region region);
  // Puts every tensor back to its initial value.
  void reset();

 private:
  Tensor declare(const std::string& name, const Shape& shape, Initializer init, DType dtype,
                 Role role);
  Tensor average_of(const std::string& name, const Shape& shape, DType dtype);
  std::string largest() const;  // a line for each of the largest tensors, for errors
  struct Entry {
    Tensor tensor;
    Initializer init;
    size_t offset;
    bool frozen = false;
    std::string key =
        {};  // of its random numbers: its name, of an average that of what it averages
  };
  uint64_t seed_;
  DType dtype_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> by_name_;  // in entries_
  Tensors parameters_, buffers_, optimizer_states_;
  std::vector<EmaPair> ema_pairs_;
  bool in_averages_ = false;
  size_t bytes_ = 0;
  Region region_;
  bool materialized_ = false;
};

}  // namespace tessera
