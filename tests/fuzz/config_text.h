// What the fuzz targets of the configuration hold to be true of errors and of printing.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/models/config/config.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

// Errors are UTF-8 without control characters but line breaks.
inline void require_printable(std::string_view said) {
  for (size_t at = 0; at < said.size(); at += utf8_at(said, at).bytes)
    if (said[at] != '\n' && (utf8_at(said, at).code < 0 || utf8_at(said, at).is_control()))
      std::abort();
}

// What is printed reads as the same configuration.
inline void require_round_trip(const std::string& printed) {
  if (print_config(parse_config(printed, "printed")) != printed) std::abort();
}

}  // namespace tessera
