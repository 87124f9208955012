// The command families of trainer that have their own files: trainer_<family>.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/models/training/run.h"
#include "tessera/models/training/trainer.h"
#include "tessera/tools/command_line.h"

namespace tessera {

// Returns the exchange with the other processes if mpirun or srun started the program, else
// nullptr. Those that do not lead log errors alone.
std::shared_ptr<Exchange> join_others(const Config& config);
// Returns a run that is shared with the other processes if mpirun or srun started the program.
Run shared_run(const Config& config);
// Catches signals; returns the options with the flags that they set.
TrainOptions stoppable(TrainOptions options = {});

// `quiet` is the program's flag, `words` its command line.
CLI::App* add_train_command(CLI::App& app, Command& command, const bool& quiet,
                            const std::string& words);
void add_eval_command(CLI::App& app, Command& command, const bool& quiet);
void add_plan_command(CLI::App& app, Command& command);
void add_bench_command(CLI::App& app, Command& command);
void add_profile_command(CLI::App& app, Command& command);
void add_data_commands(CLI::App& app, Command& command);
void add_export_command(CLI::App& app, Command& command);
void add_predict_command(CLI::App& app, Command& command);
void add_tune_command(CLI::App& app, Command& command);

void add_compare_command(CLI::App& app, Command& command);
void add_sweep_command(CLI::App& app, Command& command, const bool& quiet);

void add_config_commands(CLI::App& app, Command& command);
void add_machine_commands(CLI::App& app, Command& command);

// Flags of the command `train` that show a configuration instead of training.
struct ConfigLook {
  bool print = false, dry_run = false;
};
void add_config_look(CLI::App& train, ConfigLook& look);
// Adds --config, key=value overrides and --model, a network of the zoo with the defaults of every
// other key, images of the size of its published weights, and ImageNet's 1000 classes.
void add_config_options(CLI::App& command, std::string& config,
                        std::vector<std::string>& overrides);
// Adds --no-cuda-graph, which is gpu.cuda_graph=false, and --sync, which is gpu.synchronous=true.
void add_gpu_flags(CLI::App& command, std::vector<std::string>& overrides);
// Adds --disable-pass, which may be repeated.
void add_disable_pass(CLI::App& command, CompileOptions& compile);
// Returns false if none of the flags is set.
bool look_at_config(const ConfigLook& look, const std::string& path,
                    const std::vector<std::string>& overrides, const TrainOptions& options);

}  // namespace tessera
