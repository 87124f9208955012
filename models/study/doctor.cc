#include "tessera/models/study/doctor.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

// State that one check leaves for the next.
struct ConfigExamination {
  explicit ConfigExamination(const Config& given) : run(given), config(run.config()) {}
  const Run run;
  const Config& config;
  bool planned = false;  // the run has its session and fits
};

Finding device_of(ConfigExamination& about) {
  const SettingsScope settings(about.run.settings());
  const Device device = about.run.device();
  std::string text = device_text(device);
  const bool fell_back = about.config.device == "auto" && device.is_cpu();
  if (fell_back) text += "; " + about.run.choice().why;
  return {"device", text, 0, fell_back};
}

Finding memory_of(ConfigExamination& about) {
  const Run& run = about.run;
  try {
    run.data_need();
  } catch (const DataError&) {
    return {"memory", "unknown, because the data cannot be opened", 0, true};
  }
  require_fit(run);
  about.planned = true;
  const int64_t needed = memory_need(run).bytes();
  const std::string swapped = swap_text(host_memory().swapped);
  return {"memory",
          headroom_text(run, needed) +
              (run.data_need().complete ? "" : "; plus the memory of the image decoders") +
              (swapped.empty() ? "" : "\n" + swapped),
          0, !swapped.empty()};
}

Finding model_of(ConfigExamination& about) {
  try {
    const ParameterCount count = parameter_count(about.run);
    return {"model",
            fmt::format("{}: {} parameters, {} trainable, {} frozen", about.config.model.name,
                        count.trainable + count.frozen, count.trainable, count.frozen)};
  } catch (const DataError&) {
    return {"model", "unknown, because the data cannot be opened", 0, true};
  }
}

// Checks the data. A memory problem that an earlier check found is not reported again.
Finding data_of(ConfigExamination& about) {
  const Config& config = about.config;
  DataSource source = data_source(config);
  source.decode_all = true;
  const DataSplit data = open_data(source);
  const Run opened = about.run.as(Purpose::training, data_need(data));
  if (about.planned) require_fit(opened);
  check_classes(config, *data.train);
  check_epochs(config, data.train->count());
  Finding found{"data", data.train->describe()};
  if (data.validation != nullptr) found.text += "; " + data.validation->describe();
  found.text += "; " + data.test->describe();
  for (const std::string& line : config_notes(opened)) found.text += "\n" + line;
  for (const Dataset* split : {data.train.get(), data.validation.get(), data.test.get()}) {
    if (split == nullptr) continue;
    for (const std::string& note : split->notes()) {
      found.text += fmt::format("\n{}: {}", split->name(), note);
      found.warning = found.warning || note.find("damaged") != note.npos;
    }
  }
  if (const std::string spare = spare_classes(config, *data.train); !spare.empty()) {
    found.text += "\n" + spare;
    found.warning = true;
  }
  return found;
}

// Checks the initial weights.
Finding weights_of(ConfigExamination& about) {
  const Config& config = about.config;
  Pretrained pretrained(config.model.weights);
  if (!about.planned)
    return {"weights", config.model.weights + ": not compared, because the data cannot be opened",
            0, true};
  const std::string found = pretrained.match(config, about.run.session().image());
  pretrained.check();
  return {"weights", found};
}

Finding run_folder_of(ConfigExamination& about) {
  const Config& config = about.config;
  require_run_folder(config.run.dir);
  const int64_t free = room_for(config.run.dir);
  const std::string text = fmt::format("{}: {} free", config.run.dir, byte_text(free));
  if (!about.planned) return {"run folder", text};
  const Tensors& tensors = about.run.session().store().persistent();
  require_room(config.run.dir, Checkpointing::bytes_on_disk(config, tensors));
  // Counts the kept ones, the best, the one being written, and the final weights.
  const int64_t most =
      total_bytes(Checkpointing::planned_buffers(config, tensors)) * (config.checkpoint.keep + 3);
  const bool scarce = free < most;
  return {"run folder",
          fmt::format("{}, checkpoints need up to {}{}", text, byte_text(most),
                      scarce ? "; lower checkpoint.keep or free disk space" : ""),
          0, scarce};
}

// Checks the checkpoint that --resume uses, on whatever device it was made.
Finding checkpoint_of(ConfigExamination& about) {
  const Config& config = about.config;
  const CheckpointFolder folder(checkpoints_path(config.run.dir));
  std::string damaged;
  for (const int64_t step : folder.candidates()) {
    try {
      const CheckpointFile file(folder.path(step));
      check_same_training(config, file);
      return {"checkpoint",
              fmt::format("{}--resume continues after step {} (written by {})", damaged, step,
                          file.written_by()),
              0, !damaged.empty()};
    } catch (const CheckpointError& error) {
      damaged += fmt::format("{}; ", error.what());
    }
  }
  if (!damaged.empty()) throw CheckpointError(damaged + "no checkpoint is left to resume from");
  refuse_hdf5_run(config.run.dir);
  return {"checkpoint", "none: a new training begins"};
}

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

int Diagnosis::exit_code() const {
  const auto fault = std::ranges::find_if(findings, [](const Finding& f) { return f.exit_code; });
  return fault == findings.end() ? 0 : fault->exit_code;
}

Report Diagnosis::report() const {
  const bool of_computer = !verdict.empty();
  Report report;
  if (of_computer) report.add("verdict", nullptr, verdict).add("remedy", nullptr, remedy);
  report.add("exit_code", exit_code());
  Table list({{"what", nullptr}, {"state", nullptr}, {"text", nullptr}, {"exit_code", nullptr}});
  for (const Finding& found : findings) {
    const char* const state = found.exit_code != 0 ? "problem" : found.warning ? "warning" : "ok";
    list.add({found.what, state, found.text, found.exit_code});
    std::string text = found.text;
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at) text.insert(at + 1, 21, ' ');
    report.line(fmt::format("{:<8} {:<11} {}", state, found.what, text));
  }
  report.add("findings", list.json());
  if (!of_computer) return report;
  report.add("figures", figures).line("verdict  " + verdict);
  if (!remedy.empty()) report.line("remedy   " + remedy);
  return report;
}

Diagnosis examine(const Config& config) {
  std::vector<std::pair<const char*, std::function<Finding(ConfigExamination&)>>> checks = {
      {"device", device_of}, {"memory", memory_of},         {"model", model_of},
      {"data", data_of},     {"run folder", run_folder_of}, {"checkpoint", checkpoint_of},
  };
  if (!config.model.weights.empty()) checks.emplace_back("weights", weights_of);
  Diagnosis all;
  std::vector<Finding>& findings = all.findings;
  std::optional<ConfigExamination> known;
  try {
    known.emplace(config);
  } catch (const Error& error) {  // the network follows from the data
    findings.push_back({"data", error.what(), error.exit_code()});
    return all;
  }
  ConfigExamination& about = *known;
  const auto fault = [&](const char* what, const std::string& text, int exit_code) {
    const auto known = std::ranges::find(findings, text, &Finding::text);
    findings.push_back(
        known == findings.end()
            ? Finding{what, text, exit_code}
            : Finding{what, "not checked until the problem of '" + known->what + "' is fixed", 0,
                      true});
  };
  for (const auto& [what, check] : checks) {
    try {
      findings.push_back(check(about));
    } catch (const ConfigError& error) {
      fault(what, placed_text(config, error), error.exit_code());
    } catch (const Error& error) {
      fault(what, error.what(), error.exit_code());
    } catch (const std::filesystem::filesystem_error& error) {
      fault(what, error.what(), 2);
    }
  }
  return all;
}

void dry_run(const Config& given, const Print& print, const TrainOptions& options) try {
  Run run(given);
  const Config& config = run.config();
  const SettingsScope settings(run.settings());
  require_run_folder(config.run.dir);
  require_fit_ahead(run);
  const Checkpointing checkpoints(config, options, print);
  run.open({});
  require_fit(run);
  const DataSplit& data = run.data();
  checkpoints.check_machine(run.device());
  check_classes(config, *data.train);
  const Schedule schedule = check_epochs(config, data.train->count());
  if (!options.overwrite)
    require_room(config.run.dir,
                 Checkpointing::bytes_on_disk(config, run.session().store().persistent()));
  if (!config.model.weights.empty() && checkpoints.beginning() == nullptr) {
    Pretrained pretrained(config.model.weights);
    print(pretrained.match(config, run.image()));
    pretrained.check();
  }
  if (const std::string spare = spare_classes(config, *data.train); !spare.empty())
    log(LogLevel::warning, spare);
  for (const std::string& line : config_notes(run)) print(line);
  print(device_line(run));
  print(data.train->describe());
  if (data.validation != nullptr) print(data.validation->describe());
  print(data.test->describe());
  const int64_t batch = run.steps().train.front();
  const int64_t steps_per_epoch = (data.train->count() + batch - 1) / batch;
  checkpoints.check_data(steps_per_epoch, data.train->count());
  const int64_t steps = config.train.total_steps(steps_per_epoch);
  print(
      fmt::format("{}, batch {}: {} steps per epoch, {} steps in total; lr {:.4g} at first, {:.4g} "
                  "at last",
                  config.model.name, batch, steps_per_epoch, steps, schedule.lr(0),
                  schedule.lr(std::max<int64_t>(0, steps - 1))));
  print(plan(config).text());
  print(fmt::format("dry run: nothing was written; training would write to {}{}", config.run.dir,
                    std::filesystem::exists(config.run.dir) ? ", which exists" : ""));
} catch (const ConfigError& error) {
  rethrow_placed(given, error);
}

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
