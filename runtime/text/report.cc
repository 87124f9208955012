#include "tessera/runtime/text/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

using Lines = std::vector<std::vector<std::string>>;

// Returns lines of columns that are as wide as their longest text, two spaces apart.
std::string aligned(const Lines& lines, const std::vector<bool>& is_left) {
  std::vector<size_t> widths(is_left.size());
  for (const auto& line : lines)
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], utf8_length(line[c]));
  std::string text;
  for (const auto& line : lines) {
    for (size_t c = 0; c < line.size(); ++c) {
      const std::string space(widths[c] - utf8_length(line[c]), ' ');
      if (c > 0 && widths[c] > 0) text += "  ";
      text += is_left[c] ? line[c] + space : space + line[c];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string html_cell(const char* tag, const Cell& cell, bool is_left) {
  const std::string colour =
      cell.colour.empty() ? "" : fmt::format(" style=\"color: {}; font-weight: 600\"", cell.colour);
  return fmt::format("<{0}{1}{2}>{3}</{0}>", tag, is_left ? " class=\"text\"" : "", colour,
                     html_escaped(cell.text));
}

}  // namespace

Cell number(double value, int decimals, int json_decimals, const char* unit) {
  if (!std::isfinite(value)) return {"", Json()};
  return {fmt::format("{:.{}f}{}{}", value, decimals, *unit == 0 ? "" : " ", unit),
          json_decimals < kAllDecimals ? rounded(value, json_decimals) : value};
}

Cell percent(double part, int decimals, int json_decimals) {
  Cell cell = number(part, decimals, json_decimals);
  if (std::isfinite(part)) cell.text = fmt::format("{:.{}f} %", 100 * part, decimals);
  return cell;
}

Cell byte_count(int64_t bytes, int decimals) { return {byte_text(bytes, decimals), bytes}; }

std::string Table::text() const {
  Lines lines(1 + rows_.size());
  std::vector<bool> is_left;
  bool is_titled = false;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    if (!column.title) continue;
    is_titled = is_titled || !column.title->empty();
    is_left.push_back(column.is_left);
    lines[0].push_back(*column.title);
    for (size_t r = 0; r < rows_.size(); ++r) lines[r + 1].push_back(rows_[r][c].text);
  }
  if (!is_titled) lines.erase(lines.begin());
  return aligned(lines, is_left);
}

Json Table::json() const {
  std::vector<Json> list;
  for (const auto& row : rows_) {
    std::vector<Json::Member> members;
    for (size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].key) members.emplace_back(*columns_[c].key, row[c].json);
    list.push_back(Json::object(members));
  }
  return Json::list(list);
}

std::string Table::html() const {
  std::string html = "<div style=\"overflow-x: auto\"><table>\n<tr>";
  for (const Column& column : columns_)
    if (column.title) html += html_cell("th", *column.title, column.is_left);
  for (const auto& row : rows_) {
    html += "</tr>\n<tr>";
    for (size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].title) html += html_cell("td", row[c], columns_[c].is_left);
  }
  return html + "</tr>\n</table></div>\n";
}

Report& Report::add(const char* key, const char* label, Cell value, std::string remark) {
  parts_.push_back({Kind::value,
                    optional_name(key),
                    optional_name(label),
                    std::move(value),
                    std::move(remark),
                    {}});
  return *this;
}

Report& Report::add(const char* key, std::string title, Table table) {
  parts_.push_back({Kind::table, optional_name(key), "", std::move(title), "", {std::move(table)}});
  return *this;
}

Report& Report::add(const char* key, Json json) {
  return add(key, nullptr, Cell("", std::move(json)));
}

Report& Report::add(const char* key, const Report& section) {
  add(key, section.json());
  for (const Part& part : section.parts_) {
    parts_.push_back(part);
    parts_.back().key.reset();
  }
  return *this;
}

Report& Report::line(std::string text) {
  parts_.push_back({Kind::line, {}, "", std::move(text), "", {}});
  return *this;
}

std::string Report::text() const {
  std::string text;
  Lines block;
  const auto end_block = [&] {
    text += aligned(block, {true, true, true});
    block.clear();
  };
  for (const Part& part : parts_) {
    if (!part.label) continue;
    if (part.kind == Kind::value) {
      block.push_back({*part.label, part.value.text, part.remark});
      continue;
    }
    end_block();
    if (part.kind == Kind::table && !text.empty()) text += '\n';
    if (part.kind == Kind::line || !part.value.text.empty()) text += part.value.text + '\n';
    if (part.kind == Kind::table) text += part.table[0].text();
  }
  end_block();
  return text;
}

Json Report::json() const {
  std::vector<Json::Member> members;
  for (const Part& part : parts_)
    if (part.key)
      members.emplace_back(*part.key,
                           part.kind == Kind::table ? part.table[0].json() : part.value.json);
  return Json::object(members);
}

std::string Report::html() const {
  std::string html, block;
  const auto end_block = [&] {
    if (!block.empty()) html += "<table class=\"facts\">\n" + block + "</table>\n";
    block.clear();
  };
  for (const Part& part : parts_) {
    if (!part.label) continue;
    if (part.kind == Kind::value) {
      block += fmt::format("<tr>{}{}{}</tr>\n", html_cell("th", *part.label, true),
                           html_cell("td", part.value, false), html_cell("td", part.remark, true));
      continue;
    }
    end_block();
    const char* const tag = part.kind == Kind::table ? "h2" : "p";
    if (!part.value.text.empty())
      html += fmt::format("<{0}>{1}</{0}>\n", tag, html_escaped(part.value.text));
    if (part.kind == Kind::table) html += part.table[0].html();
  }
  end_block();
  return html;
}

}  // namespace tessera
