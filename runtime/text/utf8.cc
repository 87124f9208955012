#include "tessera/runtime/text/utf8.h"

#include <cctype>

namespace tessera {

namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

bool Utf8Character::is_control() const {
  return (code >= 0 && code < 0x20) || (code >= 0x7F && code < 0xA0);
}

Utf8Character utf8_at(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {1, lead};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + bytes > text.size()) return {};
  long code = lead & (0xFF >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if (!continues(text[at + i])) return {};
    code = code << 6 | (text[at + i] & 0x3F);
  }
  constexpr long kMin[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kMin[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {bytes, code};
}

size_t utf8_length(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += utf8_at(text, at).bytes) ++count;
  return count;
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

size_t utf8_start(std::string_view text, size_t at) {
  for (size_t back = 0; back < 4 && back <= at && at < text.size(); ++back) {
    if (continues(text[at - back])) continue;
    return utf8_at(text, at - back).bytes > back ? at - back : at;
  }
  return at;
}

std::string utf8_printable(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = utf8_at(text, at);
    if (character.code == '\t')
      shown += ' ';
    else if (character.code < 0 || character.is_control())
      shown += '?';
    else
      shown += text.substr(at, character.bytes);
    at += character.bytes;
  }
  return shown;
}

std::string html_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t')
      result += c;
  }
  return result;
}

}  // namespace tessera
