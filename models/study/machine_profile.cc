#include "tessera/models/study/machine_profile.h"

#include <algorithm>
#include <iterator>

#include "tessera/models/training/profile_costs.h"
#include "tessera/models/training/run.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

const std::vector<SampleNetwork>& sample_networks() {
  static const std::vector<SampleNetwork> samples = [] {
    std::vector<SampleNetwork> list;
    for (const Network& network : networks())
      for (const TimedAt& at : network.timed)
        list.push_back({network.name.c_str(), at.image_size, at.batch});
    std::ranges::stable_sort(list, {}, &SampleNetwork::image_size);
    return list;
  }();
  return samples;
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
