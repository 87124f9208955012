#include "tessera/memory/plan_csv.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tessera/memory/text_lines.h"

namespace tessera {
namespace {

enum Column { kId, kLower, kUpper, kSize, kAlignment, kHint, kGaps, kOffset, kColumns };
constexpr std::array<std::string_view, kColumns> kNames = {"id",        "lower", "upper", "size",
                                                           "alignment", "hint",  "gaps",  "offset"};

using Field = TextPiece;

class PlanReader : TextLines {
 public:
  PlanReader(std::string_view text, std::string_view file)
      : TextLines(text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text, file) {}

  Problem read() {
    if (!next_line()) {
      line_number = 1;
      fail({"", 1}, "the file must begin with a header line (id,lower,upper,size), but is empty");
    }
    read_header();
    Problem problem;
    while (next_line()) {
      problem.buffers.push_back(read_buffer());
      buffer_lines_.push_back(line_number);
      // Names a nameless buffer by its number, as write_plan_csv() does.
      std::string& id = problem.buffers.back().id;
      if (id.empty()) id = std::to_string(problem.buffers.size() - 1);
    }
    if (const auto fault = malformed(problem)) fail_at_last_of(problem, *fault);
    return problem;
  }

 private:
  // Fails at the first line that makes the problem malformed; each line by itself is valid.
  [[noreturn]] void fail_at_last_of(const Problem& problem, const std::string& fault) {
    size_t good = 0, bad = problem.buffers.size();
    while (bad - good > 1) {
      const size_t middle = good + (bad - good) / 2;
      const auto first = problem.buffers.begin();
      const Problem part{{first, first + static_cast<std::ptrdiff_t>(middle)}};
      (malformed(part) ? bad : good) = middle;
    }
    line_number = buffer_lines_[bad - 1];
    fail({"", 1}, fault);
  }

  // Moves to the next line that is not blank and splits it into fields.
  bool next_line() {
    for (std::string_view line; next(line);) {
      if (line.find_first_not_of(" \t") == line.npos) continue;
      fields_ = split(line, ',', 1);
      return true;
    }
    return false;
  }

  static std::vector<Field> split(std::string_view text, char separator, size_t column) {
    std::vector<Field> fields;
    for (size_t from = 0;;) {
      const size_t to = std::min(text.find(separator, from), text.size());
      size_t first = from, last = to;
      while (first < last && (text[first] == ' ' || text[first] == '\t')) ++first;
      while (last > first && (text[last - 1] == ' ' || text[last - 1] == '\t')) --last;
      fields.push_back({text.substr(first, last - first), column + first});
      if (to == text.size()) return fields;
      from = to + 1;
    }
  }

  void read_header() {
    where_.fill(-1);
    for (size_t i = 0; i < fields_.size(); ++i) {
      std::string_view name = fields_[i].text;
      if (name == "buffer" || name == "buffer_id") name = "id";
      if (name == "start" || name == "begin") name = "lower";
      if (name == "end") {
        name = "upper";
        inclusive_ = 1;
      }
      const auto found = std::find(kNames.begin(), kNames.end(), name);
      if (found == kNames.end()) {
        fail(fields_[i], fmt::format("unknown column {}; the columns are {}", in_quotes(name),
                                     fmt::join(kNames, ", ")));
      }
      int& where = where_[found - kNames.begin()];
      if (where >= 0) fail(fields_[i], fmt::format("the column '{}' appears twice", name));
      where = static_cast<int>(i);
    }
    for (Column needed : {kId, kLower, kUpper, kSize})
      if (where_[needed] < 0)
        fail(fields_[0], fmt::format("the column '{}' is missing", kNames[needed]));
    columns_ = fields_.size();
  }

  Interval read_buffer() {
    if (fields_.size() != columns_) {
      fail(fields_.back(), fmt::format("the line must have {} fields like the header, but has {}",
                                       columns_, fields_.size()));
    }
    Interval buffer;
    buffer.id = fields_[where_[kId]].text;
    buffer.lower = number(kLower, 0);
    buffer.upper = add_inclusive(number(kUpper, 0));
    buffer.size = number(kSize, 0);
    buffer.alignment = number(kAlignment, 1);
    buffer.hint = std::max<int64_t>(number(kHint, -1), -1);
    buffer.offset = number(kOffset, -1);
    const auto require = [&](bool holds, Column column, const std::string& rule) {
      if (!holds) fail(fields_[where_[column]], rule);
    };
    require(buffer.size >= 0, kSize, "a size must not be below 0");
    require(buffer.alignment >= 1, kAlignment, "an alignment must be at least 1");
    require(buffer.offset >= -1, kOffset,
            "an offset must not be below 0; write -1 or nothing for no offset");
    require(buffer.offset <= 0 || buffer.offset % buffer.alignment == 0, kOffset,
            fmt::format("an offset must be a multiple of its alignment, {}", buffer.alignment));
    require(buffer.lower <= buffer.upper, kUpper, "a buffer must not end before it begins");
    if (where_[kGaps] >= 0) read_gaps(fields_[where_[kGaps]], buffer);
    return buffer;
  }

  void read_gaps(const Field& field, Interval& buffer) const {
    for (const Field& piece : split(field.text, ' ', field.column)) {
      if (piece.text.empty()) continue;
      if (piece.text.find('@') != piece.text.npos)
        fail(piece, "windows in gaps are not supported: " + in_quotes(piece.text));
      const size_t dash = piece.text.find('-', 1);  // not the sign of the first number
      if (dash == piece.text.npos)
        fail(piece, "a gap must be 'from-to', but is " + in_quotes(piece.text));
      const Field upper{piece.text.substr(dash + 1), piece.column + dash + 1};
      const Gap gap{parse({piece.text.substr(0, dash), piece.column}), add_inclusive(parse(upper))};
      const int64_t after = buffer.gaps.empty() ? buffer.lower : buffer.gaps.back().upper;
      if (gap.lower < after || gap.lower >= gap.upper || gap.upper > buffer.upper) {
        fail(piece, fmt::format("gaps must ascend inside [{}, {}), but one is [{}, {})",
                                buffer.lower, buffer.upper, gap.lower, gap.upper));
      }
      buffer.gaps.push_back(gap);
    }
  }

  int64_t number(Column column, int64_t if_absent) const {
    if (where_[column] < 0) return if_absent;
    const Field& field = fields_[where_[column]];
    const bool optional = column >= kAlignment;
    return optional && field.text.empty() ? if_absent : parse(field);
  }

  // Parses a number below 2^62, so that two of them can be added.
  int64_t parse(const Field& field) const {
    constexpr int64_t kLargest = (int64_t{1} << 62) - 2;
    return whole_number(field, -kLargest, kLargest);
  }

  int64_t add_inclusive(int64_t last) const { return last + inclusive_; }

  std::vector<size_t> buffer_lines_;
  std::vector<Field> fields_;
  std::array<int, kColumns> where_{};
  size_t columns_ = 0;
  int64_t inclusive_ = 0;  // 1 if ends are given as the last live time
};

std::string gaps_text(const Interval& buffer) {
  std::string text;
  for (const Gap& gap : buffer.gaps)
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", gap.lower, gap.upper);
  return text;
}

// Returns the name; commas and line ends, which a field cannot contain, become '_'.
std::string id_text(const Interval& buffer, size_t index) {
  std::string id = buffer.id.empty() ? std::to_string(index) : buffer.id;
  for (char& c : id)
    if (c == ',' || c == '\n' || c == '\r') c = '_';
  return id;
}

}  // namespace

Problem read_plan_csv(std::string_view text, std::string_view file) {
  return PlanReader(text, file).read();
}

Problem read_plan_csv_file(const std::string& path) {
  return read_plan_csv(read_text_file(path), path);
}

std::string write_plan_csv(const Problem& problem, const Plan* plan) {
  const auto any = [&](auto uses) {
    return std::any_of(problem.buffers.begin(), problem.buffers.end(), uses);
  };
  const bool alignment = any([](const Interval& b) { return b.alignment != 1; });
  const bool hint = any([](const Interval& b) { return b.hint >= 0; });
  const bool gaps = any([](const Interval& b) { return !b.gaps.empty(); });
  const bool offset = plan != nullptr || any([](const Interval& b) { return b.offset >= 0; });
  std::string text = fmt::format("id,lower,upper,size{}{}{}{}\n", alignment ? ",alignment" : "",
                                 hint ? ",hint" : "", gaps ? ",gaps" : "", offset ? ",offset" : "");
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Interval& b = problem.buffers[i];
    text += fmt::format("{},{},{},{}", id_text(b, i), b.lower, b.upper, b.size);
    if (alignment) text += fmt::format(",{}", b.alignment);
    if (hint) text += fmt::format(",{}", b.hint);
    if (gaps) text += fmt::format(",{}", gaps_text(b));
    if (offset) text += fmt::format(",{}", plan != nullptr ? plan->offsets[i] : b.offset);
    text += '\n';
  }
  return text;
}

}  // namespace tessera
