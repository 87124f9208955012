// JSON values: to write them, and to read what others wrote.
//
//   Json::object({{"name", "cpu:0"}, {"cores", 8}}).text()   {"name":"cpu:0","cores":8}
//   Json::parse(text)["devices"].items()
//
// A Json never changes once it is made; copies share it. Thread-safe. Every value allocates, so
// nothing here belongs into a training step.
#pragma once

#include <concepts>
#include <cstdint>
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
  Json(double value);  // null where it is not finite
  Json(std::string_view text);
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const char* text) : Json(std::string_view(text)) {}

  static Json list(const std::vector<Json>& items);
  static Json object(const std::vector<Member>& members);  // in this order
  // Throws Error naming line and column.
  static Json parse(std::string_view text);

  // On one line, or with each level indented by so many spaces. What is not UTF-8 becomes U+FFFD.
  std::string text(int indent = -1) const;
  // On one line, for a script within HTML: without '<', '>' and '&'.
  std::string script() const;

  // For reading; each throws Error where the value is of another kind or has no such member.
  Json operator[](std::string_view member) const;
  std::vector<Json> items() const;
  std::vector<Member> members() const;
  int64_t integer() const;
  double number() const;
  std::string string() const;

 private:
  struct Access;  // json.cc

  explicit Json(std::shared_ptr<const void> value) : value_(std::move(value)) {}

  std::shared_ptr<const void> value_;  // of the library's type, perhaps within a larger one
};

// With so many decimals at most, for times and ratios: 0.33 of 1.0 / 3.
double rounded(double value, int decimals);

}  // namespace tessera
