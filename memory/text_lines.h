// TextLines: lines, numbers and errors with positions, for the readers of text files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// A piece of a line and its first column, counted from 1.
struct TextPiece {
  std::string_view text;
  size_t column;
};

// Returns `text` in quotes for a message, cut after 40 characters.
std::string in_quotes(std::string_view text);

// Returns the whole file. Throws DataError naming the file.
std::string read_text_file(const std::string& path);

// Reads a text line by line. Both views must outlive the object.
class TextLines {
 public:
  TextLines(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  // Moves to the next line and stores it in `line`, without its line end; returns false if there is
  // none. Throws DataError at a control character, the sign of a damaged or binary file.
  bool next(std::string_view& line);
  // The number of the last line read, counted from 1; 0 before the first. A caller may set it to
  // change the line that fail() reports.
  size_t line_number = 0;

  // Throws DataError: "file:line:column: what".
  [[noreturn]] void fail(const TextPiece& at, const std::string& what) const;
  // Returns the whole number `at`. Throws DataError if the text is not a whole number from `lowest`
  // to `largest`, a range in which two numbers can be added.
  int64_t whole_number(const TextPiece& at, int64_t lowest, int64_t largest) const;

 private:
  std::string_view rest_, file_;
};

}  // namespace tessera
