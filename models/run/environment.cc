#include "tessera/models/run/environment.h"

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <zlib.h>

#include "tessera/models/config/config.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/runtime/shared_library.h"
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

std::string environment_json(Device device) {
  utsname system{};
  uname(&system);
  std::vector<Json> devices;
  std::string kind = "cpu";  // equal GPUs give equal bits
  const auto part = logical_device(device);
  for (const DeviceInfo& info : physical_devices()) {
    if (!device.is_cpu() && info.device == (part ? part->physical : device))
      kind = info.description;
    devices.push_back(Json::object({{"name", info.device.name()},
                                    {"description", info.description},
                                    {"memory_bytes", info.memory_bytes}}));
  }
  const std::string fmt_version =
      fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  return Json::object(
             {{"tessera", TESSERA_VERSION},
              {"compiler", kCompiler},
              {"asserts", kAsserts},
              {"build", program_build_id()},
              {"cuda", kCuda},
              {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
              {"c_library", std::string("glibc ") + gnu_get_libc_version()},
              {"host", system.nodename},
              {"cores", available_cores()},
              {"instruction_set", isa_name(current_isa())},
              {"kernels", cpu_context().kernels_name()},
              {"winograd", name_of(settings().cpu.winograd)},
              {"device", kind},
              {"devices", Json::list(devices)},
              {"no_gpu", why_no_gpu()},
              {"libraries", Json::object({{"fmt", fmt_version}, {"zlib", zlibVersion()}})},
              {"started", utc_text(std::time(nullptr))}})
             .text(2) +
         "\n";
}

std::map<std::string, std::string> facts_of_bits(const std::string& environment) {
  constexpr std::string_view kOfBits[] = {"tessera", "compiler",  "asserts",
                                          "build",   "c_library", "instruction_set",
                                          "kernels", "winograd",  "device"};
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : Json::parse(environment).members())
    if (std::ranges::find(kOfBits, name) != std::end(kOfBits))
      facts[name] = value.text().substr(0, 100);
  // Native kernels give the same bits with all of these.
  const auto kernels = facts.find("kernels"), isa = facts.find("instruction_set");
  if (kernels != facts.end() && isa != facts.end() && kernels->second == "\"native\"")
    isa->second = "\"avx2\" or \"avx512\" or \"avx512_bf16\"";
  return facts;
}

std::string environment_changes(const std::string& run_dir, Device device, bool exact) try {
  const auto then = facts_of_bits(run_file(run_dir, "env.json"));
  std::string changes;
  for (const auto& [name, now] : facts_of_bits(environment_json(device))) {
    const auto was = then.find(name);
    if (was == then.end() ? exact : was->second != now)
      changes += fmt::format("{}{} is {} and was {}", changes.empty() ? "" : ", ", name, now,
                             was == then.end() ? "not recorded" : was->second);
  }
  return changes;
} catch (const Error&) {
  return "the run folder has no readable env.json, which records where it ran";
}

std::string shell_command(int argc, const char* const* argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+./:,=@%") == word.npos;
    if (i > 0) line += ' ';
    if (!plain) line += '\'';
    for (const char c : word) line += c == '\'' ? "'\\''" : std::string(1, c);
    if (!plain) line += '\'';
  }
  return line;
}

}  // namespace tessera
