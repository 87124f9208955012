// trainer devices, and trainer doctor without a configuration: describe this computer.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/nvml.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/json.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

struct DeviceLine {
  DeviceInfo info;
  int64_t free = -1;  // -1: unknown
  std::string driver;
  std::vector<GpuProcess> processes;  // other processes that use it
};

DeviceLine line_of(const DeviceInfo& info) {
  DeviceLine line{info, -1, "", {}};
  if (info.device.is_cpu()) {
    const HostMemory memory = host_memory();
    line.info.memory_bytes = memory.total;
    line.free = memory.free;
  } else if (const auto state = gpu_state(info.bus)) {
    line.free = state->free;
    line.processes = state->processes;
  }
  if (!info.device.is_cpu()) line.driver = nvidia_driver_version();
  return line;
}

std::string text_of(const DeviceLine& line) {
  std::string text = fmt::format("{}  {}  {}", line.info.device.name(), line.info.description,
                                 byte_text(line.info.memory_bytes, 1));
  if (line.free >= 0) text += fmt::format(", {} free", byte_text(line.free, 1));
  if (!line.driver.empty()) text += "  driver " + line.driver;
  for (const GpuProcess& process : line.processes)
    text += fmt::format("\n       process {} {}{}", process.pid,
                        process.name.empty() ? "of another user" : process.name,
                        process.bytes < 0 ? "" : "  " + byte_text(process.bytes, 1));
  return text;
}

Json json_of(const DeviceLine& line) {
  std::vector<Json> processes;
  for (const GpuProcess& process : line.processes)
    processes.push_back(Json::object({{"pid", process.pid},
                                      {"name", process.name},
                                      {"bytes", process.bytes < 0 ? Json() : process.bytes}}));
  return Json::object({{"name", line.info.device.name()},
                       {"description", line.info.description},
                       {"total_bytes", line.info.memory_bytes},
                       {"free_bytes", line.free < 0 ? Json() : line.free},
                       {"driver", line.driver},
                       {"processes", Json::list(processes)}});
}

std::vector<std::string> refused_gpus() {
  if constexpr (kCuda) return cuda_refused_devices();
  return {};
}

}  // namespace

int show_devices(bool as_json) {
  std::vector<Json> physical, logical, refused;
  for (const DeviceInfo& info : physical_devices()) {
    const DeviceLine line = line_of(info);
    physical.push_back(json_of(line));
    if (!as_json) print_line(text_of(line));
  }
  for (const DeviceInfo& info : logical_devices()) {
    logical.push_back(Json::object({{"name", info.device.name()},
                                    {"description", info.description},
                                    {"limit_bytes", info.memory_bytes}}));
    if (!as_json)
      print_line(
          fmt::format("logical {}  {}", info.device.name(), byte_text(info.memory_bytes, 1)));
  }
  for (const std::string& text : refused_gpus()) {
    refused.push_back(text);
    if (!as_json) print_line("refused: " + text);
  }
  const std::string why = why_no_gpu();
  if (as_json) {
    print_line(Json::object({{"devices", Json::list(physical)},
                             {"logical", Json::list(logical)},
                             {"refused", Json::list(refused)},
                             {"no_gpu", why}})
                   .text());
  } else if (!why.empty()) {
    print_line("no GPU: " + why);
  }
  return 0;
}

int show_machine(bool as_json) {
  const MachineReport report = examine_machine();
  if (as_json) {
    print_line(Json::object({{"verdict", report.verdict},
                             {"remedy", report.remedy},
                             {"exit_code", report.exit_code},
                             {"findings", findings_json(report.findings)},
                             {"figures", report.figures}})
                   .text());
  } else {
    print_findings(report.findings);
    print_line("verdict  " + report.verdict);
    if (!report.remedy.empty()) print_line("remedy   " + report.remedy);
  }
  return report.exit_code;
}

void print_findings(const std::vector<Finding>& findings) {
  for (const Finding& found : findings) {
    std::string text = found.text;
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at) text.insert(at + 1, 21, ' ');
    print_line(fmt::format("{:<8} {:<11} {}", state_of(found), found.what, text));
  }
}

const char* state_of(const Finding& found) {
  return found.exit_code != 0 ? "problem" : found.warning ? "warning" : "ok";
}

Json findings_json(const std::vector<Finding>& findings) {
  std::vector<Json> list;
  for (const Finding& found : findings)
    list.push_back(Json::object({{"what", found.what},
                                 {"state", state_of(found)},
                                 {"text", found.text},
                                 {"exit_code", found.exit_code}}));
  return Json::list(list);
}

}  // namespace tessera
