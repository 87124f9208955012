// A text that stands below all lines of a terminal and is redrawn in place, such as a progress bar.
//
// There is one. Lines written by log() stand above it; who writes lines past log() makes a
// WithoutStatus first. Thread-safe.
#pragma once

#include <cstdio>
#include <string_view>

namespace tessera {

// Shows the text, of one line, in place of the one before; "" takes it away. `out` must stay open
// until then.
void set_status(std::FILE* out, std::string_view text);

// While one lives, the status is not on the screen; it comes back with the last one's end.
class WithoutStatus {
 public:
  WithoutStatus();
  ~WithoutStatus();
  WithoutStatus(const WithoutStatus&) = delete;
  WithoutStatus& operator=(const WithoutStatus&) = delete;
};

}  // namespace tessera
