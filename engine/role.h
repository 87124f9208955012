// What a tensor is to a training step: one word for the Store that declares it, the graph that
// captures it, and the reports and checkpoints that count it.
#pragma once

#include <cstdint>

namespace tessera {

enum class Role : uint8_t {
  input,            // an argument of the step
  parameter,        // persistent, trained: gradients may be asked for
  buffer,           // persistent, not trained, part of the model: running statistics
  optimizer_state,  // persistent, of the optimizer: momentum, moments
  external,         // any other tensor that the step reads; its bytes are read anew in every run
  constant,         // fixed at capture
  intermediate,     // by a node of the graph
};

// Kept from step to step, by a Store.
constexpr bool is_persistent(Role role) {
  return role == Role::parameter || role == Role::buffer || role == Role::optimizer_state;
}

}  // namespace tessera
