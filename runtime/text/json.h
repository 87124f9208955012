// Json: JSON values, to write and to read.
//
//   Json::object({{"name", "cpu:0"}, {"cores", 8}}).text()   {"name":"cpu:0","cores":8}
//   Json::parse(text)["devices"].items()
//
// Immutable after construction; copies share the value. Thread-safe. Every value allocates, so do
// not use it in a training step.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class Json {
 public:
  using Member = std::pair<std::string, Json>;

  Json() : Json(nullptr) {}  // null
  Json(std::nullptr_t);
  Json(bool value);
  Json(int64_t value);
  template <std::integral T>
  Json(T value) : Json(static_cast<int64_t>(value)) {}
  Json(double value);  // null if it is not finite
  Json(std::string_view text);
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const char* text) : Json(std::string_view(text)) {}

  static Json list(const std::vector<Json>& items);
  // Returns the list of each(x) for every x in the range.
  template <class Range, class Each = std::identity>
  static Json list_of(const Range& range, Each each = {}) {
    std::vector<Json> items;
    for (const auto& x : range) items.emplace_back(each(x));
    return list(items);
  }
  static Json object(const std::vector<Member>& members);  // in this order
  // Parses a string. Throws Error naming line and column.
  static Json parse(std::string_view text);

  // Returns one line, or one line per member with each level indented by `indent` spaces. Bytes
  // that are not UTF-8 become U+FFFD.
  std::string text(int indent = -1) const;
  // Returns one line for a script in HTML: without '<', '>' and '&'.
  std::string script() const;

  // Accessors. Throw Error if the value is of another kind or has no such member.
  Json operator[](std::string_view member) const;
  std::vector<Json> items() const;
  std::vector<Member> members() const;
  int64_t integer() const;
  double number() const;
  std::string string() const;

 private:
  struct Access;  // json.cc

  explicit Json(std::shared_ptr<const void> value) : value_(std::move(value)) {}

  std::shared_ptr<const void> value_;  // the library's type; may be part of a larger value
};

// Throws Error unless root["format"], which identifies the format of a file and its version, is
// `format`.
void require_format(const Json& root, std::string_view format);

// Returns a value rounded to at most `decimals`, for times and ratios: 0.33 for 1.0 / 3.
double rounded(double value, int decimals);

// Receives JSON as a sequence of events, for untrusted texts: makes no tree, so memory is only used
// for what the listener stores, and the listener sees duplicate names. An exception ends the
// reading.
class JsonListener {
 public:
  virtual ~JsonListener() = default;
  virtual void begin_object() = 0;
  virtual void name(const std::string& name) = 0;  // name of the next value
  virtual void end_object() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void text(const std::string& text) = 0;
  virtual void whole(uint64_t number) = 0;
  virtual void other(const char* kind) = 0;  // "a fraction", "a negative number", "null", ...
};

// Reads a text. Throws Error naming line and column. Nested lists do not use the stack.
void read_json(std::string_view text, JsonListener& listener);

}  // namespace tessera
