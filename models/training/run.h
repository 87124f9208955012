// Run: a configuration, the data that it reads and what it is for, as one value.
//
//   const Run run(config);             // a training, of data as far as they are known unopened
//   Session& session = run.session();  // the model and its steps, prepared
//   require_fit(run.with([](Config& c) { c.data.batch = 64; }));
//
// What is known of a run is decided in this order, each from what stands above it, once, when it is
// first asked for:
//
//   settings   how ops compute (runtime/context.h)
//   device     where the steps run (device_choice.h)
//   data       how many images there are, and of which shape
//   steps      the batches that steps are made for
//   session    the model with these steps; takes no memory yet (session.h)
//   need       what all of it asks of the machine, byte for byte (memory_need.h)
//   budget     the session again with smaller arenas, if the need is over it (memory_budget.h)
//   limit      whether the need is refused, and what would fit (memory_limit.h); in eager mode
//              asked before the session has steps
//
// What runs steps and what tells ahead what they need are made of it: so what is planned is what is
// held. Not thread-safe.
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

struct DeviceChoice;  // device_choice.h
class Session;        // session.h
struct Settings;      // runtime/context.h

enum class Purpose {
  training,
  evaluation,    // of a run folder: evaluation steps, their loader and the data
  timing,        // a training step on generated batches: no loader, no data, no checkpoint
  verification,  // training and evaluation steps on generated batches (verify_plan.h)
};
const char* purpose_name(Purpose purpose);

// Images of the batches that steps are made for: the full batch first, then the last of an epoch
// where that is smaller; of evaluations those of the test images, then what validation has besides.
struct RunSteps {
  std::vector<int64_t> train, evaluation;
};

class Run {
 public:
  // Without `data`: of what is known without opening them (data_need() of a DataSource says how
  // far). `options` are for every session of the run.
  Run(Config config, Purpose purpose = Purpose::training, std::optional<DataNeed> data = {},
      CompileOptions options = {});
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
  Settings settings() const;
  // Throws DeviceError with the reason if the device cannot be used. device() warns, once a
  // process, if auto leaves a GPU idle because of its driver.
  const DeviceChoice& choice() const;
  Device device() const;

  const DataNeed& data_need() const;
  // Opens the data, of an evaluation the test images alone; the run is of them from now on, and its
  // session, if it has one, ends. `otherwise` tells the normalization where neither the
  // configuration nor the data do. Throws what open_data() and normalization_of() throw.
  void open(const std::function<Normalization(const Dataset&)>& otherwise);
  const DataSplit& data() const { return data_; }                         // requires open()
  const Normalization& normalization() const { return *normalization_; }  // requires open()
  ImageShape read_image() const;                                          // as it is read
  ImageShape image() const;                                               // in a step

  // Where the number of images is not known, batches are taken to be full.
  RunSteps steps() const;
  // Returns the session that the first call prepares.
  Session& session() const;
  // Returns a new session of which all steps are prepared with `options` and which has taken no
  // memory yet (in eager mode only that of arguments). Knows no memory.budget. Throws what Session
  // does, and what compiling its steps throws.
  std::unique_ptr<Session> make_session(const CompileOptions& options) const;

 private:
  Config config_;
  Purpose purpose_;
  CompileOptions options_;
  std::shared_ptr<std::optional<DeviceChoice>> chosen_;  // for all runs made of one
  mutable std::optional<DataNeed> data_need_;
  std::optional<Normalization> normalization_;
  DataSplit data_;
  mutable std::unique_ptr<Session> session_;
};

// Returns a new session of the run, as make_session() does, within memory.budget
// (memory_budget.h).
std::unique_ptr<Session> prepared_session(const Run& run);

// Numbers in the parameters of the network, and how many of them train.freeze leaves out.
struct ParameterCount {
  int64_t trainable = 0, frozen = 0;
  int64_t tensors = 0, frozen_tensors = 0, frozen_bytes = 0;
};
ParameterCount parameter_count(const Run& run);

// Returns the first line of a start, with the reason: "device: cpu:0, a processor, avx2, native
// kernels, 2 threads; as device: cpu says", and names a GPU that idles though it could run this.
std::string device_line(const Run& run);

// Returns a line for each setting that does not count: keys put aside, a batch larger than the
// data, what the schedule never reaches, LARS without a decay; and one if no checkpoint will be
// there.
std::vector<std::string> config_notes(const Run& run);

}  // namespace tessera
