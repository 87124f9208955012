// Report: the results of a command, described once and rendered as text, JSON and HTML.
//
//   Report report;
//   report.add("step_ms", "step", number(8.314, 2, 4, "ms"), "median of 50");
//   report.add("device", nullptr, "cpu:0");                  only in JSON
//   report.add("ops", "slowest ops", std::move(table));
//
//   step  8.31 ms  median of 50        {"step_ms":8.314,"device":"cpu:0","ops":[...]}
//
// Not thread-safe.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/runtime/text/json.h"

namespace tessera {

// A value: its text, and its JSON, which is more precise.
struct Cell {
  Cell(std::string text, Json json) : text(std::move(text)), json(std::move(json)) {}
  Cell(std::string_view text) : Cell(std::string(text), text) {}
  Cell(const std::string& text) : Cell(std::string_view(text)) {}
  Cell(const char* text) : Cell(std::string_view(text)) {}
  template <std::integral T>
  Cell(T count) : Cell(std::to_string(count), Json(count)) {}

  std::string text;
  Json json;
  std::string colour = {};  // of the text in HTML, such as "#2563c9"
};

// Each has the decimals of the text and those of JSON. A value that is not finite has no text and
// is null in JSON; the text of a percentage is 100 times the value.
inline constexpr int kAllDecimals = 17;
Cell number(double value, int decimals, int json_decimals = kAllDecimals, const char* unit = "");
Cell percent(double part, int decimals, int json_decimals = kAllDecimals);
Cell byte_count(int64_t bytes, int decimals = 1);  // byte_text(); whole bytes in JSON

// A name in JSON or in the text; none from nullptr: the value is not shown there.
using OptionalName = std::optional<std::string>;
inline OptionalName optional_name(const char* text) {
  return text == nullptr ? std::nullopt : OptionalName(text);
}

// Rows of values below the titles of their columns.
class Table {
 public:
  struct Column {
    // `key` is the member of each row's object in JSON, nullptr: not in JSON; `title` is the head
    // of the column, nullptr: only in JSON. Left-aligned or, by default, right-aligned.
    Column(const char* key, const char* title, bool is_left = false)
        : key(optional_name(key)), title(optional_name(title)), is_left(is_left) {}
    OptionalName key, title;
    bool is_left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }  // one value per column
  size_t rows() const { return rows_.size(); }

  std::string text() const;  // lines of columns that are as wide as their values
  Json json() const;         // a list of objects
  std::string html() const;  // <table>

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

class Report {
 public:
  // Adds a value. `key` is the member in JSON, nullptr: none; `label` is that in text and HTML,
  // nullptr: none. Values of one block of text share their columns.
  Report& add(const char* key, const char* label, Cell value, std::string remark = "");
  // Adds a table below its title, which may be empty.
  Report& add(const char* key, std::string title, Table table);
  Report& add(const char* key, Json json);  // only in JSON
  // Adds the texts of another report; in JSON it is one member.
  Report& add(const char* key, const Report& section);
  // Adds a line of text, which begins a new block; "" separates blocks.
  Report& line(std::string text);

  std::string text() const;  // whole lines
  Json json() const;
  std::string html() const;  // the part between the tags of <body>

 private:
  enum class Kind : uint8_t { value, table, line };
  struct Part {
    Kind kind;
    OptionalName key, label;
    Cell value;
    std::string remark;
    std::vector<Table> table;  // one for Kind::table
  };
  std::vector<Part> parts_;
};

}  // namespace tessera
