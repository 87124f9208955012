// DeviceChoice: the device that a run uses, and why; printed at every start. A Run (run.h) chooses
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
  std::string why;       // "set by device: cpu", "auto chose it, because ..."
  bool warning = false;  // a GPU is idle because of its driver, which is seldom intended
};

// Returns true if this computer seems to have an NVIDIA GPU. Does not load the driver, whose
// library is large.
bool nvidia_gpu_is_here();

// Cuts the devices as the configuration says (configure_devices()); does nothing if that was done
// already. Without a GPU, devices.gpu has no effect.
void cut_devices(const DevicesConfig& wanted);

// Returns the device for config.device, after cut_devices(); auto may compile a step to decide.
// Throws DeviceError with the reason if the device cannot be used.
DeviceChoice choose_device(const Config& config);
// Returns the choice for one of several processes: if the GPU was not named, the one whose index is
// the process's rank on its host, modulo the number of GPUs that it sees.
DeviceChoice choice_of_rank(DeviceChoice choice, const Config& config, int rank_on_host);
// Returns the choice of auto: the first GPU on which nothing is missing, or else the CPU.
// `missing(gpu)` returns what the configuration lacks on a GPU; empty: nothing.
DeviceChoice auto_choice(const std::vector<DeviceInfo>& devices,
                         const std::function<std::string(Device)>& missing);
// Returns the first op of the configuration's training step without a kernel for `device`, which
// need not exist: "conv2d has no kernel for gpu:0"; empty if all ops have one.
std::string missing_kernel(const Config& config, Device device);

// Returns the name of a device for people: "cpu:0, a processor, avx2, native kernels, 2 threads".
std::string device_text(Device device);
// Returns the name of an idle GPU that could run this: "; gpu:0 is idle and could run this: ...";
// empty if there is none.
std::string idle_gpu_text(const Config& config);

}  // namespace tessera
