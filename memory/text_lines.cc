#include "tessera/memory/text_lines.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

std::string in_quotes(std::string_view text) {
  constexpr size_t kMax = 40;
  return fmt::format("'{}'{}", text.substr(0, kMax), text.size() > kMax ? "..." : "");
}

std::string read_text_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  // A folder can be opened but not read; an empty file ends at once.
  if (in && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (in.bad() || !(in || in.eof())) throw DataError(fmt::format("{}: cannot be read", path));
  return text.str();
}

bool TextLines::next(std::string_view& line) {
  if (rest_.empty()) return false;
  ++line_number;
  const size_t end = std::min(rest_.find('\n'), rest_.size());
  line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto bad = std::find_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f;
  });
  if (bad != line.end())
    fail({{}, static_cast<size_t>(bad - line.begin()) + 1},
         fmt::format("the file must be text, but has the byte {:#04x} here",
                     static_cast<unsigned char>(*bad)));
  return true;
}

void TextLines::fail(const TextPiece& at, const std::string& what) const {
  throw DataError(fmt::format("{}:{}:{}: {}", file_, line_number, at.column, what));
}

int64_t TextLines::whole_number(const TextPiece& at, int64_t lowest, int64_t largest) const {
  int64_t value = 0;
  const char* end = at.text.data() + at.text.size();
  const auto [stopped, error] = std::from_chars(at.text.data(), end, value);
  if (error == std::errc::invalid_argument || stopped != end)
    fail(at, "must be an integer, but is " + in_quotes(at.text));
  if (error != std::errc() || value > largest || value < lowest)
    fail(at, "a number must fit 62 bits, but this is " + in_quotes(at.text));
  return value;
}

}  // namespace tessera
