#include "tessera/runtime/text/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <fmt/format.h>

namespace tessera {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

template <class T>
std::errc parse_number(std::string_view text, T& value) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]))
    return std::errc::invalid_argument;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::errc::invalid_argument;
  if constexpr (std::is_floating_point_v<T>)
    if (error == std::errc() && !std::isfinite(value)) return std::errc::invalid_argument;
  return error;
}

template std::errc parse_number(std::string_view, int&);
template std::errc parse_number(std::string_view, int64_t&);
template std::errc parse_number(std::string_view, uint64_t&);
template std::errc parse_number(std::string_view, double&);

std::string loss_text(double loss) {
  const double size = std::abs(loss);
  if (std::isnan(loss)) return "nan";
  if (size < 1e4) return fmt::format("{:.4f}", loss);
  return size < 1e6 ? fmt::format("{:.1f}", loss) : fmt::format("{:.3e}", loss);
}

Quantity split_unit(std::string_view text) {
  size_t end = text.find_first_not_of("0123456789.-+_eE");
  end = std::min(end, text.size());
  while (end > 0 && !is_digit(text[end - 1]) && text[end - 1] != '.') --end;
  const size_t unit = std::min(text.find_first_not_of(' ', end), text.size());
  return {text.substr(0, end), text.substr(unit)};
}

}  // namespace tessera
