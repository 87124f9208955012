// trainer devices and trainer doctor: describe this computer, and check a configuration on it.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/config/config.h"
#include "tessera/models/study/doctor.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/system_gpus.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

struct MachineArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool json = false;
};

// Adds what is known of a physical device: its memory, driver and the processes that use it, which
// are lines of the report.
void add_device(const DeviceInfo& info, Table& devices, Report& users) {
  int64_t total = info.memory_bytes, free = -1;  // -1: unknown
  Table processes({{"pid", nullptr}, {"name", nullptr}, {"bytes", nullptr}});
  if (info.device.is_cpu()) {
    const HostMemory memory = host_memory();
    total = memory.total;
    free = memory.free;
  } else if (const auto state = gpu_state(info.bus)) {
    free = state->free;
    for (const GpuProcess& process : state->processes) {
      const bool known = process.bytes >= 0;
      const Cell bytes = known ? byte_count(process.bytes) : Cell("", Json());
      processes.add({process.pid, process.name, bytes});
      users.line(fmt::format("{}: process {} {}{}", info.device.name(), process.pid,
                             process.name.empty() ? "of another user" : process.name,
                             known ? "  " + bytes.text : ""));
    }
  }
  const std::string driver = info.device.is_cpu() ? "" : nvidia_driver_version();
  Cell free_memory("", Json());
  if (free >= 0) free_memory = {byte_count(free).text + " free", free};
  devices.add({info.device.name(), info.description, byte_count(total), free_memory,
               Cell(driver.empty() ? "" : "driver " + driver, driver), Cell("", processes.json())});
}

Report devices_report() {
  Report report;
  Table physical({{"name", "", true},
                  {"description", "", true},
                  {"total_bytes", ""},
                  {"free_bytes", ""},
                  {"driver", "", true},
                  {"processes", nullptr}});
  Report users;
  for (const DeviceInfo& info : physical_devices()) add_device(info, physical, users);
  Table logical({{"name", "", true}, {"description", nullptr}, {"limit_bytes", ""}});
  for (const DeviceInfo& info : logical_devices())
    logical.add({info.device.name(), info.description, byte_count(info.memory_bytes)});
  report.add("devices", "", std::move(physical))
      .add(nullptr, users)
      .add("logical", "logical devices", std::move(logical));
  std::vector<std::string> refused;
  if constexpr (kCuda) refused = cuda_machine().refused;
  const std::string why = why_no_gpu();
  if (!refused.empty() || !why.empty()) report.line("");
  for (const std::string& text : refused) report.line("refused: " + text);
  report.add("refused", Json::list_of(refused));
  report.add("no_gpu", why);
  return why.empty() ? report : report.line("no GPU: " + why);
}

int run_devices(const MachineArguments& arguments) {
  if (!arguments.config.empty())
    cut_devices(load_config(arguments.config, arguments.overrides).devices);
  print_report(devices_report(), arguments.json, -1);
  return 0;
}

int run_doctor(const MachineArguments& arguments) {
  const Diagnosis found = arguments.config.empty()
                              ? examine_machine()
                              : examine(load_config(arguments.config, arguments.overrides));
  print_report(found.report(), arguments.json, -1);
  return found.exit_code();
}

}  // namespace

void add_machine_commands(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<MachineArguments>();
  const auto add = [&](const char* name, const char* help, const char* config,
                       int (*run)(const MachineArguments&)) {
    CLI::App* sub = add_command(app, command, name, help, [arguments, name, run] {
      if (arguments->config.empty() && !arguments->overrides.empty())
        throw ConfigError(
            fmt::format("{}: key=value changes a configuration; add --config FILE", name));
      return run(*arguments);
    });
    sub->add_option("--config", arguments->config, config);
    sub->add_option("overrides", arguments->overrides, "key=value, dotted: train.steps=50");
    sub->add_flag("--json", arguments->json, "as JSON");
  };
  add("doctor", "check whether this computer can run a configuration; writes nothing",
      "YAML file; without one: check the computer, its libraries and a short test", run_doctor);
  add("devices", "list the devices and their free memory",
      "YAML file, which may split the devices into logical devices", run_devices);
}

}  // namespace tessera
