// Role: the role of a tensor in a training step, for stores, captured graphs, reports and
// checkpoints.
#pragma once

#include <cstdint>

namespace tessera {

enum class Role : uint8_t {
  input,            // an argument of the step
  parameter,        // persistent, trained; may have a gradient
  buffer,           // persistent, not trained, part of the model: running statistics
  optimizer_state,  // persistent, of the optimizer: momentum, moments
  external,         // any other tensor that the step reads, again in every run
  constant,         // fixed at capture
  intermediate,     // computed by a node of the graph
};

// Returns whether a Store keeps the tensor from step to step.
constexpr bool is_persistent(Role role) {
  return role == Role::parameter || role == Role::buffer || role == Role::optimizer_state;
}

}  // namespace tessera
