// Status line: a text below all lines of a terminal, redrawn in place, such as a progress bar.
//
// There is one status line. log() writes above it; other code that writes lines makes a
// WithoutStatus first. Thread-safe.
#pragma once

#include <cstdio>
#include <string_view>

namespace tessera {

// Shows the text, one line, instead of the previous one; "" removes it. `out` must stay open until
// then.
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
