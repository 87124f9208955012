// Any bytes as a configuration: refused with errors that are text and name their places, or read,
// and then what is printed of it is read as the same configuration.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/models/config/config.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/runtime/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string printed;
  try {
    printed = print_config(parse_config(text, "fuzz"));
  } catch (const ConfigErrors& errors) {
    const std::string_view said = errors.what();
    if (!said.starts_with("fuzz:")) std::abort();
    for (size_t at = 0; at < said.size(); at += utf8_at(said, at).bytes)
      if (said[at] != '\n' && (utf8_at(said, at).code < 0 || utf8_at(said, at).is_control()))
        std::abort();
    return 0;
  }
  if (print_config(parse_config(printed, "printed")) != printed) std::abort();
  return 0;
}
