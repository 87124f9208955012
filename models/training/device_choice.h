// The device that a run uses, and why: said at every start. Asked of a Run (run.h), which decides
// it once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/runtime/device.h"

namespace tessera {

struct DeviceChoice {
  Device device;
  std::string why;       // "as device: cpu says", "auto chose it, because ..."
  bool warning = false;  // a GPU idles for its driver's sake, which is seldom meant
};

// Whether there may be one: without waking the driver, whose library is large.
bool nvidia_gpu_is_here();

// Cuts the devices as a configuration says (configure_devices()); what is cut so already stays.
// Without a GPU here devices.gpu cuts nothing.
void cut_devices(const DevicesConfig& wanted);

// What config.device comes to here, after cut_devices(); auto may compile a step to know. Throws
// DeviceError with the reason where that cannot be used.
DeviceChoice choose_device(const Config& config);
// What auto takes of these: the first GPU on which nothing is missing, or else the CPU.
// `missing(gpu)` says what the configuration lacks there; empty: nothing.
DeviceChoice auto_choice(const std::vector<DeviceInfo>& devices,
                         const std::function<std::string(Device)>& missing);
// The first op of the configuration's training step that has no kernel for that device, whether it
// is there or not: "conv2d has no kernel for gpu:0"; empty where all have one.
std::string missing_kernel(const Config& config, Device device);

// How a device is named to people: "cpu:0, a processor, avx2, native kernels, 2 threads".
std::string device_text(Device device);
// Names a GPU that idles though it could run this: "; gpu:0 is idle and could run this: ..."; empty
// if there is none.
std::string idle_gpu_text(const Config& config);

}  // namespace tessera
