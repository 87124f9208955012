// Where the time of a configuration's training step goes, op by op: trainer profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/graph/compile_options.h"
#include "tessera/runtime/machine_peaks.h"

namespace tessera {

struct Config;  // models/config/config.h
class Program;  // graph/program.h
class Run;      // run.h

struct ProfileOptions {
  int64_t steps = 20;  // to time, at least 1
  int64_t warmup = 3;  // before them, not timed; more in the first 0.2 s, unless it is 0
  CompileOptions compile = {};
};

struct Spread {
  double min = 0, median = 0, max = 0;
};
Spread spread_of(std::vector<double>& values);  // of at least one; sorts them

// A node of the program, views aside. What was fused into it counts with it.
struct ProfiledOp {
  size_t node = 0;        // in the program
  std::string op;         // "conv2d", "conv2d again" where it has run before (memory.budget)
  std::string place;      // in the model: "layer1.0.conv1"; outside of modules what it updates
  std::string phase;      // forward | backward | update
  std::string algorithm;  // native | winograd4 | direct | eigen | default | ...
  std::string shape;      // "[4x8x8x3] [16x3x3x3] -> [4x8x8x16]"
  Cost cost;
  Spread us;  // microseconds
};
ProfiledOp describe_op(const Program& program, size_t node);  // without its times
// Returns the run with a program whose ops can be timed, for which there is memory, prepared.
// Throws what profile() throws.
Run run_to_time(const Run& run, const CompileOptions& compile = {});
std::string op_title(const std::string& op, const std::string& place);  // "conv2d layer1.0.conv1"

// When something began and ended, in microseconds since the profile began.
struct TimeSpan {
  double begin = 0, end = 0;
};

struct Profile {
  std::string device, kernels, isa;
  int threads = 0;
  int64_t batch = 0, steps = 0;
  MachinePeaks peaks = {};  // zeros on a GPU, where they are not measured
  // Steps were run in turn without and with times taken of each op, both timed from the filling of
  // the arguments to the loss: what taking times costs is the difference.
  Spread step_ms = {}, observed_ms = {};
  Spread ops_ms = {};                // of all ops of a step together
  double estimate_ms = 0;            // the same as memory.costs has it
  std::string costs = {};            // memory.costs
  std::vector<ProfiledOp> ops = {};  // in the order that they run
  std::vector<TimeSpan> plain_steps = {}, observed_steps = {};
  std::vector<TimeSpan> op_times = {};  // of each op, step after step

  double ops_us() const;  // the sum of the ops' medians, of which each has its share

  // The summary and a table of the `most` ops that take longest; 0: of all.
  std::string text(size_t most) const;
  // Returns it as a file, for diff_profiles().
  std::string json() const;
  // Every op of every step as JSON for chrome://tracing and Perfetto (ui.perfetto.dev).
  std::string trace() const;
};

// Runs steps on generated batches, as bench() does. On a GPU each op is waited for. Throws what
// bench() throws, and ConfigError in eager mode, which has no program.
Profile profile(const Run& run, const ProfileOptions& options);

// Tells what changed between two profiles that were written as JSON (`trainer profile --json`): the
// steps, the kinds of ops, and the `most` ops (0: all) whose medians are furthest apart, the
// largest difference first. Ops are the same where name, place and phase are; those that only one
// has count with all their time. The names are for messages. Throws ConfigError where a text is no
// such profile or one of another format.
std::string diff_profiles(const std::string& a, const std::string& name_a, const std::string& b,
                          const std::string& name_b, size_t most);

// Profiles of networks of every kind, from which memory.costs estimates what others take on this
// machine: trainer profile --machine.
struct SampleNetwork {
  const char* model;
  int64_t image_size, batch;
};

// Returns what the networks of the zoo name (models/zoo/networks.h), small images first: channels
// from 3 to 2,048, every kind of convolution that the zoo has.
const std::vector<SampleNetwork>& sample_networks();

// JSON: {"format": kMachineFormat, "profiles": [what Profile::json() writes, ...]}. `config` says
// how to train them (optimizer, threads); `started` is told of each before it runs. Takes a minute
// or two for sample_networks(). Throws what profile() throws.
std::string profile_machine(const Config& config, const ProfileOptions& options,
                            std::span<const SampleNetwork> networks,
                            const std::function<void(const SampleNetwork&)>& started = {});

}  // namespace tessera
