// Compares two plans that were written as JSON (`trainer plan --json`).
#pragma once

#include <string>

namespace tessera {

// Returns the differences: sizes by region and class, then tensors that only one plan has or whose
// size or lifetime differs, the largest change first. For equal plans returns one line that says
// so. The names are for messages. Throws ConfigError if a text is not such a plan.
std::string diff_plans(const std::string& a, const std::string& name_a, const std::string& b,
                       const std::string& name_b);

}  // namespace tessera
