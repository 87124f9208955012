// Run: a configuration, the data that it reads and its purpose, as one value.
//
//   const Run run(config);             // a training; its data are not opened yet
//   Session& session = run.session();  // the model and its prepared steps
//   require_fit(run.with([](Config& c) { c.data.batch = 64; }));
//
// A run decides the following in this order, each from the ones above it, once, when it is first
// needed:
//
//   settings   how ops compute (runtime/context.h)
//   device     where the steps run (device_choice.cc)
//   data       the number and the shape of the images
//   steps      the batches that steps are made for
//   session    the model with these steps; allocates no memory yet (session.h)
//   need       the memory that the run needs, byte for byte (memory_need.h)
//   budget     the session again with smaller arenas, if the need exceeds it (memory_need.h)
//   limit      whether the need is refused, and what would fit (memory_limit.h); in eager mode
//              checked before the session has steps
//
// Training and the commands that predict its memory use the same run, so the memory that is planned
// is the memory that is used. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/compile_options.h"
#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"
#include "tessera/runtime/device.h"

namespace tessera {

class Exchange;        // runtime/exchange/exchange.h
struct LoaderOptions;  // models/data/loader.h
class Session;         // session.h
struct Settings;       // runtime/context.h

// The device that a run uses, and why; printed at every start.
struct DeviceChoice {
  Device device;
  std::string why;       // "set by device: cpu", "auto chose it, because ..."
  bool warning = false;  // a GPU is idle because of its driver, which is seldom intended
};

enum class Purpose {
  training,
  evaluation,    // evaluation steps of a run folder, their loader and the data
  timing,        // a training step on generated batches: no loader, no data, no checkpoint
  verification,  // training and evaluation steps on generated batches (models/study/plan.h)
};
const char* purpose_name(Purpose purpose);

// The batch sizes that steps are made for: the full batch first, then the last of an epoch if it is
// smaller. `evaluation` has the sizes for the test images, then those that only validation needs.
struct RunSteps {
  std::vector<int64_t> train, evaluation;
};

class Run {
 public:
  // Without `data`, the run uses what is known before the data are opened (data_need() of a
  // DataSource). `options` apply to every session of the run.
  Run(Config config, Purpose purpose = Purpose::training, std::optional<DataNeed> data = {},
      CompileOptions options = {});
  // Returns a training that several processes share; nullptr: this one alone.
  static Run shared(Config config, std::shared_ptr<Exchange> exchange, CompileOptions options = {});
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  ~Run();

  // Returns the same run with an edited configuration and without a session. Requires that `edit`
  // leaves the device, the data and the model as they are: these stay decided.
  template <class Edit>
  Run with(const Edit& edit) const {
    Run other = as(purpose_, data_need_, options_);
    edit(other.config_);
    return other;
  }
  // Returns a run of the same configuration for another purpose.
  Run as(Purpose purpose, std::optional<DataNeed> data = {}, CompileOptions options = {}) const;

  const Config& config() const { return config_; }
  Purpose purpose() const { return purpose_; }
  const CompileOptions& options() const { return options_; }
  const std::shared_ptr<Exchange>& exchange() const { return exchange_; }
  // Returns true unless another process of the training writes its files and lines.
  bool leads() const;
  // Returns the options of the loader of training, with the share of this process.
  LoaderOptions training_loader(Device device) const;
  Settings settings() const;
  // Throws DeviceError with the reason if the device cannot be used. device() warns, once per
  // process, if auto leaves a GPU idle because of its driver.
  const DeviceChoice& choice() const;
  Device device() const;

  const DataNeed& data_need() const;
  // Opens the data (for an evaluation only the test images), which the run describes from now on,
  // and destroys the session if there is one. `otherwise` returns the normalization if neither the
  // configuration nor the data have one. Throws what open_data() and normalization_of() throw.
  void open(const std::function<Normalization(const Dataset&)>& otherwise);
  const DataSplit& data() const { return data_; }                         // requires open()
  const Normalization& normalization() const { return *normalization_; }  // requires open()
  ImageShape read_image() const;                                          // in the data
  ImageShape image() const;                                               // in a step

  // Assumes full batches if the number of images is unknown.
  RunSteps steps() const;
  // Returns the session, which the first call prepares.
  Session& session() const;
  // Returns a new session with all its steps prepared with `options`; it has allocated no memory
  // yet (in eager mode only that of arguments). Ignores memory.budget. Throws what Session throws,
  // and what compiling its steps throws.
  std::unique_ptr<Session> make_session(const CompileOptions& options) const;

 private:
  Config config_;
  Purpose purpose_;
  CompileOptions options_;
  std::shared_ptr<std::optional<DeviceChoice>> chosen_;  // shared by all runs made from this one
  mutable std::optional<DataNeed> data_need_;
  std::optional<Normalization> normalization_;
  DataSplit data_;
  mutable std::unique_ptr<Session> session_;
  std::shared_ptr<Exchange> exchange_;
};

// Returns a new session of the run, as make_session() does, within memory.budget. If memory_need()
// exceeds the budget, its arenas have only what the rest of the need leaves of the budget
// (CompileOptions::arena_budget). Throws PlanInfeasible, with the smallest budget that would do, if
// that is too little.
std::unique_ptr<Session> prepared_session(const Run& run);

// The elements of the network's parameters, trainable and frozen by train.freeze.
struct ParameterCount {
  int64_t trainable = 0, frozen = 0;
  int64_t tensors = 0, frozen_tensors = 0, frozen_bytes = 0;
};
ParameterCount parameter_count(const Run& run);

// Returns the line that names the device of a run at its start, with the reason: "device: cpu:0, a
// processor, avx2, native kernels, 2 threads; as device: cpu says". Names an idle GPU that could
// run this.
std::string device_line(const Run& run);

// Returns a line for each setting that has no effect: ignored keys, a batch larger than the data,
// parts of the schedule that are never reached, LARS without weight decay. Adds a line if no
// checkpoint will be written.
std::vector<std::string> config_notes(const Run& run);

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
