#include "tessera/runtime/start_thread.h"

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

void refuse_thread(const char* purpose, const char* remedy, const std::system_error& error) {
  throw DeviceError(
      fmt::format("threads: the system cannot start a thread for {} ({}); {}, or raise the limit "
                  "of the user or of the container (ulimit -u)",
                  purpose, error.code().message(), remedy));
}

}  // namespace tessera
