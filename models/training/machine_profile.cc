#include "tessera/models/training/machine_profile.h"

#include <iterator>
#include <vector>

#include "tessera/runtime/text/json.h"

namespace tessera {

std::span<const SampleNetwork> sample_networks() {
  static constexpr SampleNetwork kNetworks[] = {
      {"lenet5", 28, 128},
      {"resnet20", 32, 128},
      {"resnet18_cifar", 32, 64},
      {"mobilenet_v2", 32, 128},
      {"vgg11_bn", 32, 64},
      {"densenet_bc", 32, 64},
      {"resnet18", 224, 16},
      {"resnet50", 224, 8},
      {"mobilenet_v2", 224, 16},
      {"mobilenet_v3_large", 224, 16},
      {"efficientnet_b0", 224, 16},
      {"densenet121", 224, 8},
      {"googlenet", 224, 8},
      {"regnet_y_400mf", 224, 16},
      {"shufflenet_v2_x0_5", 224, 16},
      {"shufflenet_v2_x1_0", 224, 16},
      {"convnext_atto", 224, 16},
      {"convnext_nano", 224, 8},
      {"vgg11_bn", 224, 8},
      {"alexnet", 224, 16},
  };
  return kNetworks;
}

std::string profile_machine(const Config& config, const ProfileOptions& options,
                            std::span<const SampleNetwork> networks,
                            const std::function<void(const SampleNetwork&)>& started) {
  // A machine that others use has slow minutes; each network is timed in several.
  constexpr int64_t kRounds = 3;
  ProfileOptions part = options;
  part.steps = (options.steps + kRounds - 1) / kRounds;
  std::vector<Json> profiles;
  for (int64_t i = 0; i < kRounds * std::ssize(networks); ++i) {
    const SampleNetwork& network = networks[static_cast<size_t>(i % std::ssize(networks))];
    if (started) started(network);
    Config sample = config;
    sample.model = {};
    sample.model.name = network.model;
    sample.data = {};
    sample.data.name = "synthetic";
    sample.data.image_size = network.image_size;
    sample.data.batch = network.batch;
    profiles.push_back(Json::parse(profile(sample, part).json()));
  }
  return Json::object({{"format", kMachineFormat}, {"profiles", Json::list(profiles)}}).text();
}

}  // namespace tessera
