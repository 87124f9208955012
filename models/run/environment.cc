#include "tessera/models/run/environment.h"

#include <ctime>
#include <vector>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <zlib.h>

#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

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

const char* tessera_version() { return TESSERA_VERSION; }

std::string environment_json() {
  utsname system{};
  uname(&system);
  std::vector<Json> devices;
  for (const DeviceInfo& info : physical_devices())
    devices.push_back(Json::object({{"name", info.device.name()},
                                    {"description", info.description},
                                    {"memory_bytes", info.memory_bytes}}));
  const std::string fmt_version =
      fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  return Json::object(
             {{"tessera", TESSERA_VERSION},
              {"compiler", kCompiler},
              {"asserts", kAsserts},
              {"cuda", kCuda},
              {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
              {"host", system.nodename},
              {"cores", available_cores()},
              {"instruction_set", isa_name(current_isa())},
              {"kernels", cpu_context().kernels_name()},
              {"devices", Json::list(devices)},
              {"no_gpu", why_no_gpu()},
              {"libraries", Json::object({{"fmt", fmt_version}, {"zlib", zlibVersion()}})},
              {"started", utc_text(std::time(nullptr))}})
             .text(2) +
         "\n";
}

std::string shell_command(int argc, const char* const* argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+./:,=@%") == word.npos;
    if (i > 0) line += ' ';
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (char c : word) {
      if (c == '\'')
        line += "'\\''";
      else
        line += c;
    }
    line += '\'';
  }
  return line;
}

}  // namespace tessera
