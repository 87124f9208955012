#include "tessera/memory/recompute/recompute_text.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/memory/text_lines.h"

namespace tessera {
namespace {

using Word = TextPiece;

class RecomputeReader : TextLines {
 public:
  RecomputeReader(std::string_view text, std::string_view file) : TextLines(text, file) {}

  RecomputeProblem read() {
    while (next_line()) {
      const std::string_view kind = words_[0].text;
      if (kind == "value") {
        read_value();
      } else if (kind == "step") {
        read_step();
      } else if (kind == "budget") {
        read_budget();
      } else {
        fail(words_[0], "a line must begin with value, step or budget, but this one begins with " +
                            in_quotes(kind));
      }
    }
    for (const auto& [value, at, line] : takes_) {
      line_number = line;
      problem_.values[value].may_reuse = values_of(at);
    }
    if (problem_.steps.empty()) {
      ++line_number;
      fail({{}, 1}, "the file has no step");
    }
    if (const auto fault = malformed(problem_)) {
      if (fault->step >= 0) line_number = step_lines_[fault->step];
      if (fault->value >= 0) line_number = value_lines_[fault->value];
      fail({{}, 1}, fault->text);
    }
    return std::move(problem_);
  }

 private:
  // Moves to the next line that is neither blank nor a comment and splits it into words.
  bool next_line() {
    for (std::string_view line; next(line);) {
      cut(line);
      if (!words_.empty() && words_[0].text[0] != '#') return true;
    }
    return false;
  }

  void cut(std::string_view line) {
    words_.clear();
    constexpr const char* kBlanks = " \t";
    for (size_t i = 0; (i = line.find_first_not_of(kBlanks, i)) != line.npos;) {
      const size_t end = std::min(line.find_first_of(kBlanks, i), line.size());
      words_.push_back({line.substr(i, end - i), i + 1});
      i = end;
    }
  }

  const Word& word(size_t index, const char* what) const {
    if (index < words_.size()) return words_[index];
    const Word& last = words_.back();
    fail({{}, last.column + last.text.size()}, fmt::format("{} is missing", what));
  }

  std::string name() const {
    const Word& at = word(1, "a name");
    if (at.text.find_first_of(",=") != at.text.npos)
      fail(at, fmt::format("a name must not have ',' or '=', but is {}", in_quotes(at.text)));
    return std::string(at.text);
  }

  int64_t number(const Word& at) const {
    constexpr int64_t kLargest = (int64_t{1} << 62) - 1;
    const int64_t value = whole_number(at, INT64_MIN, kLargest);
    if (value < 0) fail(at, "a number must not be below 0, but is " + in_quotes(at.text));
    return value;
  }

  std::vector<int> values_of(const Word& at) const {
    std::vector<int> values;
    for (size_t from = 0; from <= at.text.size();) {
      const size_t end = std::min(at.text.find(',', from), at.text.size());
      const Word one{at.text.substr(from, end - from), at.column + from};
      const auto found = value_named_.find(std::string(one.text));
      if (found == value_named_.end())
        fail(one, fmt::format("value {} does not exist", in_quotes(one.text)));
      values.push_back(found->second);
      from = end + 1;
    }
    return values;
  }

  // Calls take(key, value) for each word from the fourth on; take() returns false for unknown keys.
  template <class Take>
  void read_options(const char* known, Take take) const {
    std::set<std::string_view> seen;
    for (size_t i = 3; i < words_.size(); ++i) {
      const Word& at = words_[i];
      const size_t equals = std::min(at.text.find('='), at.text.size());
      const std::string_view key = at.text.substr(0, std::min(equals + 1, at.text.size()));
      if (!seen.insert(key).second) fail(at, in_quotes(key) + " appears twice");
      const Word value{at.text.substr(std::min(equals + 1, at.text.size())),
                       at.column + equals + 1};
      if (!take(key, value)) fail(at, fmt::format("{} is not one of {}", in_quotes(key), known));
    }
  }

  void read_value() {
    RecomputeValue value;
    const int index = static_cast<int>(problem_.values.size());
    value.id = name();
    value.bytes = number(word(2, "the size in bytes"));
    read_options("may_reuse=A,B and result", [&](std::string_view key, const Word& at) {
      if (key == "result") return value.result = true;
      if (key != "may_reuse=") return false;
      takes_.push_back({index, at, line_number});
      return true;
    });
    if (!value_named_.emplace(value.id, index).second)
      fail(words_[1], fmt::format("value {} already exists", in_quotes(value.id)));
    problem_.values.push_back(std::move(value));
    value_lines_.push_back(line_number);
  }

  void read_step() {
    RecomputeStep step;
    step.id = name();
    step.cost = number(word(2, "the cost"));
    read_options("reads=, makes=, overwrites=, scratch=, once and cheap",
                 [&](std::string_view key, const Word& at) {
                   if (key == "reads=") return step.reads = values_of(at), true;
                   if (key == "makes=") return step.makes = values_of(at), true;
                   if (key == "overwrites=") return step.overwrites = values_of(at), true;
                   if (key == "scratch=") return step.scratch = number(at), true;
                   if (key == "once") return step.recomputable = false, true;
                   if (key == "cheap") return step.cheap = true;
                   return false;
                 });
    problem_.steps.push_back(std::move(step));
    step_lines_.push_back(line_number);
  }

  void read_budget() {
    if (problem_.budget >= 0) fail(words_[0], "the budget appears twice");
    problem_.budget = number(word(1, "the budget in bytes"));
    if (words_.size() > 2) fail(words_[2], "nothing may follow a budget");
  }

  std::vector<Word> words_;
  RecomputeProblem problem_;
  std::vector<size_t> value_lines_, step_lines_;
  struct Takes {
    int value;
    Word at;
    size_t line;
  };
  std::vector<Takes> takes_;  // may name values of later lines
  std::unordered_map<std::string, int> value_named_;
};

// Returns names that are valid in a file; all are different if `different`.
template <class Items>
std::vector<std::string> names_of(const Items& items, char kind, bool different) {
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (size_t i = 0; i < items.size(); ++i) {
    std::string name = items[i].id.empty() ? fmt::format("{}{}", kind, i) : items[i].id;
    for (char& c : name)
      if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f || c == ',' || c == '=') c = '_';
    while (different && !taken.insert(name).second) name += fmt::format("~{}", i);
    names.push_back(std::move(name));
  }
  return names;
}

std::string list(const char* key, const std::vector<int>& values,
                 const std::vector<std::string>& names) {
  if (values.empty()) return {};
  std::vector<std::string_view> words;
  for (int v : values) words.push_back(names[v]);
  return fmt::format(" {}={}", key, fmt::join(words, ","));
}

}  // namespace

RecomputeProblem read_recompute(std::string_view text, std::string_view file) {
  return RecomputeReader(text, file).read();
}

RecomputeProblem read_recompute_file(const std::string& path) {
  return read_recompute(read_text_file(path), path);
}

std::string write_recompute(const RecomputeProblem& problem) {
  const std::vector<std::string> values = names_of(problem.values, 'v', true);
  const std::vector<std::string> steps = names_of(problem.steps, 's', false);
  std::string text;
  if (problem.budget >= 0) text += fmt::format("budget {}\n", problem.budget);
  for (size_t i = 0; i < values.size(); ++i) {
    const RecomputeValue& v = problem.values[i];
    text += fmt::format("value {} {}{}{}\n", values[i], v.bytes,
                        list("may_reuse", v.may_reuse, values), v.result ? " result" : "");
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const RecomputeStep& s = problem.steps[i];
    text +=
        fmt::format("step {} {}{}{}{}{}{}{}\n", steps[i], s.cost, list("reads", s.reads, values),
                    list("makes", s.makes, values), list("overwrites", s.overwrites, values),
                    s.scratch > 0 ? fmt::format(" scratch={}", s.scratch) : "",
                    s.recomputable ? "" : " once", s.cheap ? " cheap" : "");
  }
  return text;
}

}  // namespace tessera
