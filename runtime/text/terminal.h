// Properties of a terminal, line wrapping, and the status line.
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

// Shows a text, one line, below all lines of a terminal, such as a progress bar, instead of the
// previous one; "" removes it. `out` must stay open until then. There is one such status line.
// log() writes above it; other code that writes lines makes a WithoutStatus first. Thread-safe.
void set_status(std::FILE* out, std::string_view text);

// Hides the status line during its lifetime; the end of the last WithoutStatus shows it again.
class WithoutStatus {
 public:
  WithoutStatus();
  ~WithoutStatus();
  WithoutStatus(const WithoutStatus&) = delete;
  WithoutStatus& operator=(const WithoutStatus&) = delete;
};

}  // namespace tessera
