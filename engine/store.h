// Store: owns the persistent tensors of a program by name (a VarStore): parameters, optimizer
// state, running statistics.
//
// Tensors are declared first (name, shape, initialiser). All get their bytes at once, in one block,
// when materialize() is called or one of them is first used. Values depend on (seed, name) alone.
// The block is freed with the store, so its tensors must not be read later. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/memory/regions.h"

namespace tessera {

enum class Role : uint8_t;  // storage.h

// Computes the initial values of a tensor.
struct Initializer {
  enum class Kind : uint8_t { constant, uniform, normal } kind = Kind::constant;
  double a = 0;  // the constant, the bound of U(-a, a), the stddev of N(0, a)
  // For filters [out, .., in] with a middle: filter q < min(out, in) passes input channel q
  // through.
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
  // `dtype` is the default of parameters (float64 for gradient checks).
  explicit Store(uint64_t seed = 0, DType dtype = DType::f32) : seed_(seed), dtype_(dtype) {}
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Declares a trained tensor, which may have a gradient. Throws Error if the name is taken, the
  // store is materialized, or under capture.
  Tensor parameter(const std::string& name, const Shape& shape, Initializer init,
                   std::optional<DType> dtype = {});
  // Declares a tensor that steps update but gradients do not reach: running statistics.
  Tensor buffer(const std::string& name, const Shape& shape, Initializer init,
                std::optional<DType> dtype = {});
  // Declares state of an optimizer. Checkpoints contain it, files of weights do not.
  Tensor optimizer_state(const std::string& name, const Shape& shape, Initializer init,
                         std::optional<DType> dtype = {});
  DType dtype() const { return dtype_; }

  // Makes a parameter a buffer: it has no gradient and is saved with the weights. Requires that the
  // store is not materialized and parameters() has not been read. Throws Error if there is no such
  // parameter.
  void freeze(const std::string& name);

  // While this scope exists, parameter(name) and buffer(name) return the optimizer state
  // "ema.<name>", which starts with the initial value of the tensor `name`. That tensor must be
  // declared already. A model that is built again inside the scope therefore reads averaged weights
  // (layers/optimizers/ema.h). Tensors that are frozen or not floating point are returned
  // themselves.
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
  // Exchanges values and averages in place. Requires a materialized store.
  void swap_ema();

  // In the order of declaration.
  const Tensors& parameters() const { return parameters_; }
  const Tensors& buffers() const { return buffers_; }
  const Tensors& optimizer_states() const { return optimizer_states_; }
  // Returns all of them, in this order; a checkpoint contains them.
  Tensors persistent() const;
  Tensor find(const std::string& name) const;  // undefined if there is none

  // The size of the block: each tensor rounded up to alignment_of(device).
  size_t bytes() const { return bytes_; }
  bool materialized() const { return materialized_; }
  // Allocates and initialises all tensors, in the device's memory or in the caller's region of at
  // least bytes() bytes.
  void materialize();
  void materialize(Region region);
  // Resets every tensor to its initial value.
  void reset();

 private:
  Tensor declare(const std::string& name, const Shape& shape, Initializer init, DType dtype,
                 Role role);
  Tensor average_of(const std::string& name, const Shape& shape, DType dtype);
  std::string largest() const;  // one line for each of the largest tensors, for errors
  struct Entry {
    Tensor tensor;
    Initializer init;
    size_t offset;
    bool frozen = false;
    std::string key = {};  // selects the random numbers: the name; for an average, its tensor's
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
