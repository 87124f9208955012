#include "tessera/models/study/bench_inference.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "tessera/engine/scope.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Sorted, without the first call.
std::vector<double> times_of(const Classifier& net, int64_t calls) {
  std::vector<uint8_t> images(static_cast<size_t>(net.image().bytes() * net.batch()));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(i * 31 % 251);
  net(images);
  std::vector<double> times;
  for (int64_t k = 0; k < calls; ++k) {
    const Clock::time_point start = Clock::now();
    net(images);
    times.push_back(milliseconds_since(start));
  }
  std::sort(times.begin(), times.end());
  return times;
}

Json bytes_json(const Classifier::Bytes& bytes) {
  return Json::object({{"weights", bytes.weights}, {"slots", bytes.slots}, {"arena", bytes.arena}});
}

}  // namespace

InferenceBench bench_inference(const Run& run, int64_t calls) {
  const SettingsScope settings(run.settings());
  const Config& config = run.config();
  run.device();  // throws where there is none
  TrainedNetwork network;
  network.config = config;
  network.image = training_image(config, DataNeed());
  network.inference =
      inference_json(config, network.image, plain_normalization(network.image), {}).text();
  const DeviceScope cpu("cpu:0");
  network.network = make_network(config, network.image, network.store);
  network.store.materialize();
  InferenceBench result;
  const Clock::time_point start = Clock::now();
  const Classifier single(network, 1);
  result.load_ms = milliseconds_since(start);
  const std::vector<double> one = times_of(single, calls);
  result.p50_ms = one[one.size() / 2];
  result.p99_ms = one[one.size() * 99 / 100];
  result.one = single.bytes();
  result.batch = config.data.batch;
  const Classifier batched(network, result.batch);
  const std::vector<double> many = times_of(batched, calls);
  result.images_per_second = 1000.0 * static_cast<double>(result.batch) / many[many.size() / 2];
  result.many = batched.bytes();
  result.threads = cpu_context().threads();
  result.kernels = cpu_context().kernels_name();
  return result;
}

std::string InferenceBench::json() const {
  return Json::object({{"p50_ms", rounded(p50_ms, 4)},
                       {"p99_ms", rounded(p99_ms, 4)},
                       {"images_per_second", rounded(images_per_second, 2)},
                       {"batch", batch},
                       {"load_ms", rounded(load_ms, 3)},
                       {"bytes", bytes_json(one)},
                       {"batch_bytes", bytes_json(many)},
                       {"threads", threads},
                       {"kernels", kernels}})
      .text();
}

}  // namespace tessera
