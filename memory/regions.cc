#include "tessera/memory/regions.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

Region::Region(std::string label, size_t bytes, RawMemory& memory) : label_(std::move(label)) {
  try {
    data_ = {static_cast<std::byte*>(memory.allocate(bytes, label_)), Release{bytes, &memory}};
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("{} region: {}", label_, error.what()));
  }
}

Region::Region(std::string label, size_t bytes, ExternalMemory external, size_t alignment)
    : label_(std::move(label)) {
  if (bytes == 0) return;
  if (external.data == nullptr || external.bytes < bytes) {
    throw ConfigError(fmt::format(
        "{} region: the external memory must have {} bytes, but has {}; pass a larger block",
        label_, bytes, external.data == nullptr ? 0 : external.bytes));
  }
  const auto address = reinterpret_cast<uintptr_t>(external.data);
  if (address % alignment != 0) {
    throw ConfigError(fmt::format(
        "{} region: the external memory must start at a multiple of {} bytes, but {:#x} is {} past "
        "one; align it",
        label_, alignment, address, address % alignment));
  }
  data_ = {static_cast<std::byte*>(external.data), Release{bytes, nullptr}};
}

}  // namespace tessera
