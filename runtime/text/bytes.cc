#include "tessera/runtime/text/bytes.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "tessera/runtime/text/number.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
constexpr size_t kLast = std::size(kUnits) - 1;

}  // namespace

std::string byte_text(int64_t bytes, int decimals) {
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit < kLast; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string short_byte_text(int64_t bytes) {
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit < kLast; ++unit) value /= 1024;
  return fmt::format("{:.{}f}{}", value, unit > 2 && value < 9.95 ? 1 : 0, kUnits[unit]);
}

std::string exact_byte_text(int64_t bytes) {
  size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit < kLast; ++unit) bytes /= 1024;
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

ParsedBytes parse_bytes(std::string_view text) {
  const Quantity quantity = split_unit(text);
  ParsedBytes parsed;
  parsed.number = quantity.number;
  parsed.unit = quantity.unit;
  double count = 0;
  parsed.is_number = parse_number(quantity.number, count) == std::errc();
  if (!parsed.is_number) return parsed;
  if (quantity.unit.empty()) parsed.remark = "which has no unit";
  const std::string number(quantity.number), unit = lower_case(quantity.unit);
  for (size_t i = 0; i <= kLast; ++i) {
    const std::string whole = number + std::string(kUnits[i]), known = lower_case(kUnits[i]);
    const std::string letter = known.substr(0, 1);
    if (text == whole) {
      const double bytes = std::ldexp(count, 10 * static_cast<int>(i));
      if (bytes != std::floor(bytes)) {
        parsed.remark = "the number of bytes must be an integer";
      } else if (bytes >= 0 && bytes < 0x1p62) {
        parsed.bytes = static_cast<int64_t>(bytes);
      }
    } else if (unit == known || unit == letter || unit == letter + "b") {
      parsed.remark = unit == known ? "" : "units are powers of 1024";
      parsed.instead = whole;
    }
  }
  return parsed;
}

}  // namespace tessera
