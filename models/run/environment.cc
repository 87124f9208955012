#include "tessera/models/run/environment.h"

#include <chrono>
#include <cstring>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <zlib.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + '"';
}

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

#ifdef NDEBUG
constexpr const char* kAsserts = "off";
#else
constexpr const char* kAsserts = "on";
#endif

}  // namespace

std::string environment_json() {
  utsname system{};
  uname(&system);
  std::string devices;
  for (const DeviceInfo& info : physical_devices()) {
    devices += fmt::format("{}{{\"name\": {}, \"description\": {}, \"memory_bytes\": {}}}",
                           devices.empty() ? "" : ", ", quoted(info.device.name()),
                           quoted(info.description), info.memory_bytes);
  }
  return fmt::format(
      "{{\n  \"tessera\": {},\n  \"compiler\": {},\n  \"asserts\": {},\n  \"cuda\": {},\n"
      "  \"system\": {},\n  \"host\": {},\n  \"cores\": {},\n  \"instruction_set\": {},\n"
      "  \"devices\": [{}],\n  \"no_gpu\": {},\n  \"libraries\": {{\"fmt\": \"{}.{}.{}\", \"zlib\": {}}},\n"
      "  \"started\": \"{:%Y-%m-%dT%H:%M:%SZ}\"\n}}\n",
      quoted(TESSERA_VERSION), quoted(kCompiler), quoted(kAsserts), kCuda,
      quoted(fmt::format("{} {} {}", system.sysname, system.release, system.machine)),
      quoted(system.nodename), available_cores(), quoted(isa_name(current_isa())), devices,
      quoted(why_no_gpu()), FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100,
      quoted(zlibVersion()), fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::string shell_command(int argc, const char* const* argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool plain =
        !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                "0123456789_-+./:,=@%") == word.npos;
    if (i > 0) line += ' ';
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (char c : word) {
      if (c == '\'') line += "'\\''";
      else line += c;
    }
    line += '\'';
  }
  return line;
}

}  // namespace tessera
