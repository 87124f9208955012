// Families of trainer's verbs that have files of their own: trainer_<family>.cc.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/study/doctor.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/text/json.h"
#include "tessera/tools/command_line.h"

namespace tessera {

// `quiet`: the program's own flag.
void add_eval_verb(CLI::App& app, Verb& verb, const bool& quiet);
void add_plan_verb(CLI::App& app, Verb& verb);
void add_bench_verb(CLI::App& app, Verb& verb);
void add_profile_verb(CLI::App& app, Verb& verb);
void add_data_verbs(CLI::App& app, Verb& verb);
void add_export_verb(CLI::App& app, Verb& verb);
void add_predict_verb(CLI::App& app, Verb& verb);
void add_tune_verb(CLI::App& app, Verb& verb);

void add_config_verbs(CLI::App& app, Verb& verb);

// trainer_machine.cc: the verb devices, and doctor without a configuration. They give the exit
// code.
int show_devices(bool as_json);  // as they are cut
int show_machine(bool as_json);
void say_findings(const std::vector<Finding>& findings);
Json findings_json(const std::vector<Finding>& findings);
const char* state_of(const Finding& found);  // "ok", "warning", "problem"

// Looks at a configuration instead of training: flags of the verb `train`.
struct ConfigLook {
  bool print = false, dry_run = false;
};
void add_config_look(CLI::App& train, ConfigLook& look);
// --no-cuda-graph, which is gpu.cuda_graph=false, and --sync, which is gpu.synchronous=true.
void add_gpu_flags(CLI::App& verb, std::vector<std::string>& overrides);
// False when no flag asks for it.
bool look_at_config(const ConfigLook& look, const std::string& path,
                    const std::vector<std::string>& overrides, const TrainOptions& options);

}  // namespace tessera
