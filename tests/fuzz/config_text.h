// Checks of errors and printing, for the fuzz targets of the configuration.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/models/config/config.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

// Requires UTF-8 without control characters other than line breaks.
inline void require_printable(std::string_view said) {
  for (size_t at = 0; at < said.size(); at += utf8_at(said, at).bytes)
    if (said[at] != '\n' && (utf8_at(said, at).code < 0 || utf8_at(said, at).is_control()))
      std::abort();
}

// Requires that the printed text reads as the same configuration.
inline void require_round_trip(const std::string& printed) {
  if (print_config(parse_config(printed, "printed")) != printed) std::abort();
}

}  // namespace tessera
