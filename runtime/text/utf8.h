// Text as UTF-8: checked, counted and made fit to show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// The character at `at`: its bytes (1 where it is not UTF-8) and its code point, -1 where it is not
// UTF-8 (cut off, overlong, a surrogate, above U+10FFFF).
struct Utf8Character {
  size_t bytes = 1;
  long code = -1;
  // U+0000 to U+001F, U+007F to U+009F.
  bool is_control() const;
};
Utf8Character utf8_at(std::string_view text, size_t at);

// In characters; what is not UTF-8 counts a character a byte.
size_t utf8_length(std::string_view text);
// The first byte of the character that byte `at` belongs to.
size_t utf8_start(std::string_view text, size_t at);
// Tabs as spaces; other control characters, and what is not UTF-8, as '?'.
std::string utf8_printable(std::string_view text);

}  // namespace tessera
