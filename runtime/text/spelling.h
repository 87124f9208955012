// Suggestions for misspelled names in errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Returns the known name with the fewest typing errors (a letter more, less, other, or two
// swapped). Returns "" if that has more than max(2, n / 3) errors (1 if n <= 3), n the length of
// the longer word.
std::string nearest_spelling(std::string_view word, const std::vector<std::string>& known);

// Returns "'resnet21' is not one of lenet5, mlp, resnet20; did you mean 'resnet20'?".
std::string unknown_name(std::string_view word, const std::vector<std::string>& known);

}  // namespace tessera
