// What changed between two plans that were written as JSON (`trainer plan --json`).
#pragma once

#include <string>

namespace tessera {

// Sizes by region and class, and the tensors that only one has or whose size or life is another,
// the largest change first. Plans that are alike give one line that says so. The names are for
// messages. Throws ConfigError where a text is no such plan.
std::string diff_plans(const std::string& a, const std::string& name_a, const std::string& b,
                       const std::string& name_b);

}  // namespace tessera
