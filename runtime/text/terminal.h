// What a stream that a person looks at can show.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tessera {

bool is_terminal(std::FILE* out);
// Whether lines can be redrawn in place: a terminal that is not a "dumb" one (TERM).
bool can_redraw(std::FILE* out);
// Characters that a line has room for; 0 where `out` is no terminal.
int columns_of(std::FILE* out);

// Lines of at most `columns` characters, broken at spaces; what follows a break is indented by two.
// A word that is longer stays whole.
std::string wrapped(std::string_view text, int columns);

}  // namespace tessera
