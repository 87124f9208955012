#include "tessera/runtime/cuda/device_properties.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

constexpr const char* kProfiles[] = {
#include TESSERA_GPU_PROFILES
};

struct Profile {
  std::string name;
  DeviceProperties properties;
};

const std::vector<Profile>& profiles() {
  static const std::vector<Profile> all = [] {
    std::vector<Profile> read;
    for (const char* text : kProfiles) {
      const Json json = Json::parse(text);
      Profile profile{json["profile"].string(),
                      properties_of_description(json["description"].text())};
      profile.properties.origin = json["origin"].string();
      read.push_back(std::move(profile));
    }
    return read;
  }();
  return all;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
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
  for (const Profile& profile : profiles())
    if (same_word(profile.name, name)) return profile.properties;
  throw DeviceError(fmt::format("no GPU is described as '{}'; the described GPUs are {}", name,
                                fmt::join(gpu_profile_names(), ", ")));
}

std::vector<std::string> gpu_profile_names() {
  std::vector<std::string> names;
  for (const Profile& profile : profiles()) names.push_back(profile.name);
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

}  // namespace tessera
