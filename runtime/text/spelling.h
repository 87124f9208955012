// For errors about names: which known name was meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// The known name with the fewest typing errors (a letter more, less, other, or two swapped), or ""
// when none is near: more errors than a third of the longer word, but two from four letters on.
std::string nearest_spelling(std::string_view word, const std::vector<std::string>& known);

// "'resnet21' is not known; did you mean 'resnet20'? (known: lenet5, mlp, resnet20)"
std::string unknown_name(std::string_view word, const std::vector<std::string>& known);

}  // namespace tessera
