// The only file that includes the JSON library, which takes seconds to compile.
#include "tessera/runtime/text/json.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tessera/runtime/error.h"

namespace tessera {

using Value = nlohmann::ordered_json;

namespace {

// Removes the prefix "[json.exception.parse_error.101] " and shortens the text, which may quote all
// of a long document.
std::string told(const Value::exception& error) {
  constexpr size_t kMax = 300;
  const std::string_view what = error.what();
  const size_t end = what.find("] ");
  std::string text(end == what.npos ? what : what.substr(end + 2));
  if (text.size() > kMax) text = text.substr(0, kMax) + "...";
  return text;
}

// Translates the library's events.
class Events final : public nlohmann::json_sax<Value> {
 public:
  explicit Events(JsonListener& to) : to_(to) {}
  bool null() override { return to_.other("null"), true; }
  bool boolean(bool) override { return to_.other("true or false"), true; }
  bool number_integer(int64_t) override { return to_.other("a negative number"), true; }
  bool number_unsigned(uint64_t number) override { return to_.whole(number), true; }
  bool number_float(double, const std::string&) override {
    return to_.other("a fraction, or a number of more than 64 bits"), true;
  }
  bool string(std::string& text) override { return to_.text(text), true; }
  bool binary(binary_t&) override { return to_.other("bytes"), true; }
  bool start_object(size_t) override { return to_.begin_object(), true; }
  bool key(std::string& name) override { return to_.name(name), true; }
  bool end_object() override { return to_.end_object(), true; }
  bool start_array(size_t) override { return to_.begin_list(), true; }
  bool end_array() override { return to_.end_list(), true; }
  bool parse_error(size_t, const std::string&, const Value::exception& error) override {
    throw Error(told(error));
  }

 private:
  JsonListener& to_;
};

}  // namespace

void read_json(std::string_view text, JsonListener& listener) {
  Events events(listener);
  Value::sax_parse(text, &events);
}

struct Json::Access {
  static const Value& of(const Json& json) { return *static_cast<const Value*>(json.value_.get()); }

  static Json make(Value value) {
    return Json(std::shared_ptr<const void>(std::make_shared<const Value>(std::move(value))));
  }

  // Returns a part of a value, which keeps the whole value alive.
  static Json part(const Json& whole, const Value& value) {
    return Json(std::shared_ptr<const void>(whole.value_, &value));
  }

  // Throws Error, naming what is `wanted`, unless `is` holds for the value.
  template <class Is>
  static const Value& of(const Json& json, Is is, const char* wanted) {
    const Value& value = of(json);
    if (!std::invoke(is, value))
      throw Error(fmt::format("expected {}, but got {}", wanted, value.type_name()));
    return value;
  }
};

Json::Json(std::nullptr_t) : Json(Access::make(nullptr)) {}
Json::Json(bool value) : Json(Access::make(value)) {}
Json::Json(int64_t value) : Json(Access::make(value)) {}
Json::Json(double value) : Json(Access::make(value)) {}
Json::Json(std::string_view text) : Json(Access::make(text)) {}

Json Json::list(const std::vector<Json>& items) {
  Value list = Value::array();
  for (const Json& item : items) list.push_back(Access::of(item));
  return Access::make(std::move(list));
}

Json Json::object(const std::vector<Member>& members) {
  Value object = Value::object();
  for (const auto& [name, value] : members) object[name] = Access::of(value);
  return Access::make(std::move(object));
}

Json Json::parse(std::string_view text) {
  try {
    return Access::make(Value::parse(text));
  } catch (const Value::exception& error) {
    throw Error(told(error));
  }
}

std::string Json::text(int indent) const {
  return Access::of(*this).dump(indent, ' ', false, Value::error_handler_t::replace);
}

std::string Json::script() const {
  std::string safe;
  for (const char c : text())
    if (c == '<' || c == '>' || c == '&')
      safe += fmt::format("\\u{:04x}", c);
    else
      safe += c;
  return safe;
}

Json Json::operator[](std::string_view member) const {
  const Value& value = Access::of(*this, &Value::is_object, "an object");
  const auto found = value.find(member);
  if (found == value.end()) throw Error(fmt::format("'{}' is missing", member));
  return Access::part(*this, *found);
}

std::vector<Json> Json::items() const {
  std::vector<Json> items;
  for (const Value& item : Access::of(*this, &Value::is_array, "a list"))
    items.push_back(Access::part(*this, item));
  return items;
}

std::vector<Json::Member> Json::members() const {
  std::vector<Member> members;
  for (const auto& [name, member] : Access::of(*this, &Value::is_object, "an object").items())
    members.emplace_back(name, Access::part(*this, member));
  return members;
}

int64_t Json::integer() const {
  const auto fits = [](const Value& value) {
    return value.is_number_integer() &&
           !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX});
  };
  return Access::of(*this, fits, "an integer of 64 bits").get<int64_t>();
}

double Json::number() const {
  return Access::of(*this, &Value::is_number, "a number").get<double>();
}

std::string Json::string() const {
  return Access::of(*this, &Value::is_string, "a string").get<std::string>();
}

void require_format(const Json& root, std::string_view format) {
  if (const std::string given = root["format"].string(); given != format)
    throw Error(
        fmt::format("the format is '{}', but must be '{}'; write the file again", given, format));
}

double rounded(double value, int decimals) {
  const double factor = std::pow(10.0, decimals);
  return std::round(value * factor) / factor;
}

}  // namespace tessera
