// Text in UTF-8: validation, length and printable form, also in HTML and SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// A character: its bytes (1 if it is not UTF-8) and its code point, -1 if it is not UTF-8 (cut off,
// overlong, a surrogate, above U+10FFFF).
struct Utf8Character {
  size_t bytes = 1;
  long code = -1;
  // Returns true for U+0000 to U+001F, U+007F to U+009F.
  bool is_control() const;
};
Utf8Character utf8_at(std::string_view text, size_t at);

// Returns the length in characters; a byte that is not UTF-8 counts as one.
size_t utf8_length(std::string_view text);
// Returns the text with lower-case ASCII letters.
std::string lower_case(std::string_view text);
// Returns the first byte of the character that contains byte `at`.
size_t utf8_start(std::string_view text, size_t at);
// Returns the text with tabs as spaces; other control characters and invalid bytes as '?'.
std::string utf8_printable(std::string_view text);

// Returns the text with '<', '>', '&' and '"' as entities, for use between tags and in attributes;
// drops the control characters that XML forbids.
std::string html_escaped(std::string_view text);

}  // namespace tessera
