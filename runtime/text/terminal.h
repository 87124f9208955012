// Properties of a terminal, and line wrapping.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tessera {

bool is_terminal(std::FILE* out);
// Returns true if lines can be redrawn in place: a terminal that is not "dumb" (TERM).
bool can_redraw(std::FILE* out);
// Returns the characters per line; 0 if `out` is not a terminal.
int columns_of(std::FILE* out);

// Breaks text into lines of at most `columns` characters at spaces; indents continuation lines by
// two or, `hanging`, to the last column of the line, as in a --help. A longer word stays whole.
std::string wrapped(std::string_view text, int columns, bool hanging = false);

}  // namespace tessera
