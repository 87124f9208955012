// What changed between two profiles that were written as JSON (`trainer profile --json`).
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

// The steps, the kinds of ops, and the `most` ops (0: all) whose medians are furthest apart, the
// largest difference first. Ops are the same where name, place and phase are; those that only one
// has count with all their time. The names are for messages. Throws ConfigError where a text is no
// such profile or one of another format.
std::string diff_profiles(const std::string& a, const std::string& name_a, const std::string& b,
                          const std::string& name_b, size_t most);

}  // namespace tessera
