#include <algorithm>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>

#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/system_gpus.h"

namespace tessera {

bool nvidia_gpu_is_here() {
  std::error_code error;
  if (std::filesystem::exists("/dev/nvidiactl", error)) return true;
  const std::vector<PciGpu> gpus = pci_gpus();
  return std::ranges::count(gpus, "NVIDIA", &PciGpu::maker) > 0;
}

std::string missing_kernel(const Config& config, Device device) {
  Config there = config;
  there.mode = Mode::kGraph;
  try {
    const DescribedDevice described(device);
    const ImageShape image = training_image(there, data_need(data_source(there)));
    Session session(there, device, image, plain_normalization(image));
    for (const Node& node : session.train_step(1).compiled_graph()->graph.nodes)
      if (!node.op->runs_on(device.kind))
        return fmt::format("{} has no kernel for {}", node.op->name(), device.name());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

DeviceChoice auto_choice(const std::vector<DeviceInfo>& devices,
                         const std::function<std::string(Device)>& missing) {
  std::string why;
  for (const DeviceInfo& info : devices) {
    if (info.device.is_cpu()) continue;
    const std::string lacks = missing(info.device);
    if (lacks.empty())
      return {info.device, "auto chose it: the first GPU that this configuration can run on"};
    if (why.empty()) why = lacks;
  }
  return {Device{}, "auto chose it, because " + (why.empty() ? why_no_gpu() : why)};
}

void cut_devices(const DevicesConfig& wanted) {
  static std::mutex mutex;
  static DevicesConfig now;
  const std::lock_guard lock(mutex);
  if (wanted == now) return;
  std::vector<DeviceParts> parts;
  const auto cut = [&](const char* device, const std::vector<ByteSize>& sizes) {
    if (sizes.empty()) return;
    parts.push_back({.device = device});
    for (const ByteSize& size : sizes)
      parts.back().limits.push_back(static_cast<size_t>(size.bytes));
  };
  cut("cpu:0", wanted.cpu);
  if (!wanted.gpu.empty() && why_no_gpu().empty()) cut("gpu:0", wanted.gpu);
  configure_devices(parts);
  now = wanted;
}

DeviceChoice choose_device(const Config& config) {
  cut_devices(config.devices);
  if (config.device == "auto") {
    DeviceChoice chosen =
        auto_choice(logical_devices(), [&](Device gpu) { return missing_kernel(config, gpu); });
    chosen.warning = chosen.device.is_cpu() && driver_mismatch();
    return chosen;
  }
  if (described_gpu(config.device) != nullptr)
    throw DeviceError(
        fmt::format("device: {} is only a description, for trainer plan; to run, set gpu or gpu:0",
                    config.device));
  const Device device = parse_device(config.device);
  require_device(device);
  return {device, fmt::format("set by device: {}", config.device)};
}

DeviceChoice choice_of_rank(DeviceChoice choice, const Config& config, int rank_on_host) {
  if (choice.device.is_cpu() || config.device.find(':') != config.device.npos) return choice;
  std::vector<Device> gpus;
  for (const DeviceInfo& info : logical_devices())
    if (!info.device.is_cpu()) gpus.push_back(info.device);
  choice.device = gpus[static_cast<size_t>(rank_on_host) % gpus.size()];
  choice.why += fmt::format("; process {} of this computer", rank_on_host);
  return choice;
}

std::string device_text(Device device) {
  if (device.is_cpu())
    return fmt::format("{}, {}, {}, {} kernels, {} threads", device.name(), cpu_description(),
                       isa_name(current_isa()), cpu_context().kernels_name(),
                       cpu_context().threads());
  std::string text = device.name();
  for (const DeviceInfo& info : logical_devices())
    if (info.device == device) text += ", " + info.description;
  return text;
}

std::string idle_gpu_text(const Config& config) {
  if (!nvidia_gpu_is_here()) return "";
  const DeviceChoice best =
      auto_choice(logical_devices(), [&](Device gpu) { return missing_kernel(config, gpu); });
  return best.device.is_cpu()
             ? ""
             : fmt::format("; {} is idle and could run this; set device=auto to use it",
                           best.device.name());
}

}  // namespace tessera
