#include "tessera/runtime/cuda/device_properties.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {
namespace {

constexpr const char* kProfiles[] = {
#include TESSERA_GPU_PROFILES
};

// The described GPUs by name.
const std::map<std::string, DeviceProperties>& profiles() {
  static const auto all = [] {
    std::map<std::string, DeviceProperties> read;
    for (const char* text : kProfiles) {
      const Json json = Json::parse(text);
      DeviceProperties properties = properties_of_description(json["description"].text());
      properties.origin = json["origin"].string();
      read.emplace(json["profile"].string(), std::move(properties));
    }
    return read;
  }();
  return all;
}

}  // namespace

DeviceProperties properties_of_description(std::string_view text) {
  const Json json = Json::parse(text);
  const auto version = static_cast<int>(json["deviceVer"].integer());  // 900 is 9.0
  return {.name = json["deviceName"].string(),
          .major = version / 100,
          .minor = version % 100 / 10,
          .multiprocessors = static_cast<int>(json["multiProcessorCount"].integer()),
          .memory_bytes = json["totalGlobalMem"].integer(),
          .description = json.text()};
}

const DeviceProperties& gpu_profile(std::string_view name) {
  for (const auto& [known, properties] : profiles())
    if (lower_case(known) == lower_case(name)) return properties;
  throw DeviceError(fmt::format("no GPU is described as '{}'; the described GPUs are {}", name,
                                fmt::join(gpu_profile_names(), ", ")));
}

std::vector<std::string> gpu_profile_names() {
  std::vector<std::string> names;
  for (const auto& [name, properties] : profiles()) names.push_back(name);
  return names;
}

const DeviceProperties* described_gpu(std::string_view device) {
  constexpr std::string_view kGpu = "gpu:";
  if (!device.starts_with(kGpu) || device.size() == kGpu.size()) return nullptr;
  const std::string_view name = device.substr(kGpu.size());
  if (name.find_first_not_of("0123456789") == name.npos) return nullptr;
  try {
    return &gpu_profile(name);
  } catch (const DeviceError&) {
    throw DeviceError(
        fmt::format("device: '{}' is not a device name; write cpu, gpu, cpu:0 or gpu:1 (or /CPU:0, "
                    "/GPU:1), or, for trainer plan, gpu: followed by one of {}",
                    device, fmt::join(gpu_profile_names(), ", ")));
  }
}

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
