#include "tessera/runtime/text/bytes.h"

#include <fmt/format.h>

namespace tessera {

std::string byte_text(int64_t bytes, int decimals) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

}  // namespace tessera
