#include "tessera/models/training/doctor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <unistd.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {
namespace {

Finding device_of(const Config& config) {
  const Device device = configured_device(config);
  std::string text;
  for (const DeviceInfo& info : physical_devices())
    if (info.device == device) text = fmt::format("{}, {}", device.name(), info.description);
  if (device.is_cpu())
    text += fmt::format(", {}, {} kernels, {} threads", isa_name(current_isa()),
                        cpu_context().kernels_name(), cpu_context().threads());
  const bool fell_back = config.device == "auto" && device.is_cpu();
  if (fell_back) text += "; no GPU: " + why_no_gpu();
  return {"device", text, 0, fell_back};
}

Finding memory_of(const Config& config) {
  const DataNeed data = known_data(config);
  require_fit(config, data, Purpose::training);
  const int64_t needed = memory_need(config, data).bytes(), free = host_memory().free;
  if (free > 0 && needed > free) {
    const int64_t batch = BatchSearch(data, Purpose::training).largest(config, free).batch;
    throw OutOfMemory(fmt::format(
        "{} are needed, but this machine has only {} free; {}", byte_text(needed), byte_text(free),
        batch > 0 ? fmt::format("data.batch={} would fit", batch)
                  : "not even a batch of one image would fit: take a smaller model or machine"));
  }
  return {"memory", headroom_text(config, data, needed) +
                        (data.complete ? "" : "; what decoders of pictures take comes on top")};
}

Finding data_of(const Config& config) {
  const DataSplit data = open_fitting(config, /*decode_all=*/true);
  check_classes(config, *data.train);
  Finding found{"data", fmt::format("{}; {}", data.train->describe(), data.test->describe())};
  for (const Dataset* split : {data.train.get(), data.test.get()})
    for (const std::string& note : split->notes()) {
      found.text += fmt::format("\n{}: {}", split->name(), note);
      found.warning = found.warning || note.find("damaged") != note.npos;
    }
  if (const std::string spare = spare_classes(config, *data.train); !spare.empty()) {
    found.text += "\n" + spare;
    found.warning = true;
  }
  return found;
}

// The folder, or the nearest one above it that is there.
std::filesystem::path nearest(const std::filesystem::path& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder);
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

Finding run_folder_of(const Config& config) {
  const std::filesystem::path folder = nearest(config.run.dir);
  const auto fail = [&](const char* why) {
    throw Error(fmt::format("'{}' cannot be made: '{}': {}; check run.dir", config.run.dir,
                            folder.string(), why));
  };
  if (!std::filesystem::is_directory(folder)) fail("is no folder");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail(std::strerror(errno));
  int64_t needed = 0;
  for (const HostBuffer& block : memory_need(config).blocks)
    if (block.name == "checkpoint") needed = static_cast<int64_t>(block.bytes);
  // Those that stay, the best, the one being written, and the weights at the end.
  needed *= config.checkpoint.keep + 3;
  const auto free = static_cast<int64_t>(std::filesystem::space(folder).available);
  const std::string text = fmt::format("{}: {} free, checkpoints take up to {}", config.run.dir,
                                       byte_text(free), byte_text(needed));
  if (free < needed) throw CheckpointError(text + "; lower checkpoint.keep or free some");
  return {"run folder", text};
}

// That which --resume goes on from, on whatever device it was made.
Finding checkpoint_of(const Config& config) {
  const CheckpointFolder folder(checkpoints_path(config.run.dir));
  std::string damaged;
  for (const int64_t step : folder.candidates()) {
    try {
      const CheckpointFile file(folder.path(step));
      check_same_training(config, file);
      return {"checkpoint",
              fmt::format("{}--resume goes on after step {} (written by {})", damaged, step,
                          file.written_by()),
              0, !damaged.empty()};
    } catch (const CheckpointError& error) {
      damaged += fmt::format("{}; ", error.what());
    }
  }
  if (!damaged.empty()) throw CheckpointError(damaged + "none is left to resume from");
  return {"checkpoint", "none: training begins afresh"};
}

}  // namespace

std::vector<Finding> examine(const Config& config) {
  const std::pair<const char*, std::function<Finding(const Config&)>> checks[] = {
      {"device", device_of},         {"memory", memory_of},         {"data", data_of},
      {"run folder", run_folder_of}, {"checkpoint", checkpoint_of},
  };
  std::vector<Finding> findings;
  for (const auto& [what, check] : checks) {
    try {
      findings.push_back(check(config));
    } catch (const Error& error) {
      findings.push_back({what, error.what(), error.exit_code()});
    } catch (const std::filesystem::filesystem_error& error) {
      findings.push_back({what, error.what(), 2});
    }
  }
  return findings;
}

}  // namespace tessera
