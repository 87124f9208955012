#include "tessera/runtime/cuda/architectures.h"

#include <algorithm>
#include <charconv>
#include <climits>

#include <fmt/format.h>

namespace tessera {

std::string architecture_fault(std::string_view built, int major, int minor) {
  const int here = major * 10 + minor;
  int oldest = INT_MAX;
  while (!built.empty()) {
    const size_t end = std::min(built.find(','), built.size());
    const std::string_view entry = built.substr(0, end);
    built.remove_prefix(std::min(end + 1, built.size()));
    int number = 0;
    const char* const last = entry.data() + entry.size();
    const auto [stop, error] = std::from_chars(entry.data(), last, number);
    if (error != std::errc()) return "";
    const std::string_view word(stop, static_cast<size_t>(last - stop));
    const bool code = word != "-virtual" && number / 10 == major && number <= here;
    const bool translated = word != "-real" && number <= here;
    if (code || translated) return "";
    oldest = std::min(oldest, number);
  }
  if (oldest == INT_MAX) return "";
  const std::string what = fmt::format("compute capability {}.{}", major, minor);
  if (here < oldest)
    return fmt::format(
        "{} is older than any that this build has code for ({}.{} and newer); set device: cpu, or "
        "build with an older CUDA toolkit and -DCMAKE_CUDA_ARCHITECTURES={}",
        what, oldest / 10, oldest % 10, here);
  return fmt::format(
      "{}: this build has no code for it; configure with "
      "-DCMAKE_CUDA_ARCHITECTURES={} or -DTESSERA_CUDA_ALL=ON",
      what, here);
}

}  // namespace tessera
