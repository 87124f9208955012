// Any bytes as a configuration: refused with errors that are text and name their locations, or
// read; the printed configuration then reads as the same one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config_text.h"

#include "tessera/models/config/config.h"
#include "tessera/models/config/diagnostics.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string printed;
  try {
    printed = print_config(parse_config(text, "fuzz"));
  } catch (const ConfigErrors& errors) {
    const std::string_view said = errors.what();
    if (!said.starts_with("fuzz:")) std::abort();
    require_printable(said);
    return 0;
  }
  require_round_trip(printed);
  return 0;
}
