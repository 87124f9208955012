#include "tessera/models/study/data_report.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/moments.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

void add_sizes(Report& report, const Dataset& data) {
  ImageShape least = data.own_shape(0), most = least;
  for (int64_t i = 0; i < data.count(); ++i) {
    const ImageShape own = data.own_shape(i);
    least = {std::min(least.height, own.height), std::min(least.width, own.width), own.channels};
    most = {std::max(most.height, own.height), std::max(most.width, own.width), own.channels};
  }
  const auto size = [](const ImageShape& shape) {
    return Json::object({{"height", shape.height}, {"width", shape.width}});
  };
  report.add("smallest", size(least)).add("largest", size(most));
  report.line(fmt::format("  sizes: {} to {} high, {} to {} wide", least.height, most.height,
                          least.width, most.width));
}

Report inspect_split(const std::shared_ptr<const Dataset>& data, const Config& config) {
  Report report;
  report.line(data->describe()).add("data", data->describe()).add("images", data->count());
  if (data->has_own_sizes()) add_sizes(report, *data);
  std::vector<int64_t> counts(static_cast<size_t>(data->classes()));
  Moments moments(data->channels());
  Loader loader(data, loader_options(config, false));
  for (int64_t i = 0; i < loader.batches(); ++i) {
    const Batch& batch = loader.next();
    moments.add(batch.images, batch.count * data->shape().bytes());
    for (int64_t k = 0; k < batch.count; ++k) ++counts[static_cast<size_t>(batch.labels[k])];
  }
  const Normalization measured = moments.normalization();
  const std::vector<double> mean(measured.mean.begin(), measured.mean.end());
  const std::vector<double> deviations(measured.std.begin(), measured.std.end());
  const auto four = [](double value) { return rounded(value, 4); };
  report.add("mean", Json::list_of(mean, four)).add("std", Json::list_of(deviations, four));
  report.line(fmt::format("  mean [{:.4f}], std [{:.4f}]", fmt::join(mean, ", "),
                          fmt::join(deviations, ", ")));
  Table classes({{"images", nullptr}, {"class", nullptr}});
  for (size_t i = 0; i < counts.size(); ++i) {
    const std::string name =
        data->class_names().empty() ? fmt::format("class {}", i) : data->class_names()[i];
    classes.add({counts[i], name});
    report.line(fmt::format("  {:>8}  {}", counts[i], name));
  }
  const std::vector<std::string> notes = data->notes();
  for (const std::string& note : notes) report.line("  " + note);
  return report.add("classes", classes.json()).add("notes", Json::list_of(notes));
}

}  // namespace

Report inspect_data(const Config& config, const std::function<void(const Report&)>& each) {
  DataSource source = data_source(config);
  source.decode_all = true;
  const DataSplit data = open_data(source);
  Report report;
  const auto add = [&](const char* key, const std::shared_ptr<const Dataset>& split) {
    if (split == nullptr) return;
    const Report part = inspect_split(split, config);
    if (each) each(part);
    report.add(key, part);
  };
  add("train", data.train);
  add("validation", data.validation);
  add("test", data.test);
  return report;
}

Report time_data(const Config& config, double seconds) {
  const int64_t before = host_memory().process;
  DataSplit data = open_data(data_source(config));
  data.test.reset();  // not used here
  release_unused_heap();
  const LoaderOptions options = loader_options(config, true);
  Loader loader(data.train, options);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  int64_t images = 0, most = 0;
  double took = 0;
  constexpr int64_t kMin = 16, kLook = 8;  // in batches: fill every slot, check the memory
  for (int64_t i = 0; i < kMin || took < seconds; ++i) {
    images += loader.next().count;
    if (i % kLook == kLook - 1) most = std::max(most, host_memory().process);
    took = seconds_since(start);
  }
  const int64_t said = loader.bytes() + total_bytes(data.train->host_buffers());
  const LoaderTimes times = loader.times();
  const double rate = static_cast<double>(images) / took;
  Report report;
  report.add("images_per_second", rounded(rate, 2))
      .add("workers", options.workers)
      .add("seconds", rounded(took, 4))
      .add("read_seconds", rounded(times.read, 4))
      .add("decode_seconds", rounded(times.decode, 4))
      .add("augment_seconds", rounded(times.augment, 4))
      .add("mix_seconds", rounded(times.mix, 4))
      .add("calculated_memory_bytes", said)
      .add("process_growth_bytes", most - before);
  report.line(fmt::format(
      "{:.1f} images/s with {} workers; time of the workers: reading {:.1f} s, decoding {:.1f} s, "
      "augmentation {:.1f} s, mixing {:.1f} s of {:.1f} s",
      rate, options.workers, times.read, times.decode, times.augment, times.mix,
      took * std::max(1, options.workers)));
  return report.line(fmt::format("memory: calculated {:.2f} MiB, the process grew by {:.2f} MiB",
                                 static_cast<double>(said) / (1 << 20),
                                 static_cast<double>(most - before) / (1 << 20)));
}

}  // namespace tessera
