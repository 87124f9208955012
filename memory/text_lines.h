// What the readers of text files share: lines, numbers, and errors that say where.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// A piece of a line and the column where it begins, from 1.
struct TextPiece {
  std::string_view text;
  size_t column;
};

// A piece for a message, in quotes: short, however long it is.
std::string in_quotes(std::string_view text);

// The whole file. Throws DataError, which names it.
std::string read_text_file(const std::string& path);

// A text line by line; both views must outlive it.
class TextLines {
 public:
  TextLines(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  // Moves on to the next line, which comes without its end. False: there is none. Throws DataError
  // at a control character: a damaged or binary file is refused where that begins.
  bool next(std::string_view& line);
  // Of the line that was read last, from 1; 0 before the first. May be set, for fail().
  size_t number = 0;

  // Throws DataError: "file:line:column: what".
  [[noreturn]] void fail(const TextPiece& at, const std::string& what) const;
  // Throws DataError where it is none, or none from `lowest` to `largest`, which are for numbers of
  // which two can be added.
  int64_t whole_number(const TextPiece& at, int64_t lowest, int64_t largest) const;

 private:
  std::string_view rest_, file_;
};

}  // namespace tessera
