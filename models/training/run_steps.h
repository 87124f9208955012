// The recipe of a run: the batches that it makes steps for, the session that has them, and every
// block of memory that it asks for besides. What runs steps and what tells ahead what they need
// both read it here: so what is planned is what is held.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/graph/compile_options.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

class CompiledStep;  // graph/compile.h
class Session;       // session.h
struct Config;       // models/config/config.h

enum class Purpose {
  training,
  evaluation,    // of a run folder: evaluation steps, their loader and the data
  timing,        // a training step on generated batches: no loader, no data, no checkpoint
  verification,  // training and evaluation steps on generated batches (verify_plan.h)
};
const char* purpose_name(Purpose purpose);

// As far as is known without opening the data (data_need() says how far).
DataNeed known_data(const Config& config, Purpose purpose = Purpose::training);

// Images of the batches that steps are made for: the full batch first, then the last of an epoch
// where that is smaller; of evaluations those of the test images, then what validation has besides.
struct RunSteps {
  std::vector<int64_t> train, evaluation;
};
// Where the number of images is not known, batches are taken to be full.
RunSteps run_steps(const Config& config, const DataNeed& data, Purpose purpose);

// Numbers in the parameters of the network, and how many of them train.freeze leaves out.
struct ParameterCount {
  int64_t trainable = 0, frozen = 0;
  int64_t tensors = 0, frozen_tensors = 0, frozen_bytes = 0;
};
ParameterCount parameter_count(const Config& config, const DataNeed& data);

// Returns a line for each setting that does not count: keys put aside, a batch larger than the
// data, what the schedule never reaches, LARS without a decay; and one if no checkpoint will be
// there.
std::vector<std::string> remarks_on(const Config& config, const DataNeed& data);

// A session of which all steps of the run are prepared and which has taken no memory yet (in eager
// mode only that of arguments), within memory.budget (memory_budget.h). `normalization` of the
// data; nullptr where no data will be seen. Throws what Session does, and what compiling its steps
// throws.
std::unique_ptr<Session> prepared_session(const Config& config, const DataNeed& data,
                                          Purpose purpose, const CompileOptions& options = {},
                                          const Normalization* normalization = nullptr);
// Of an image in a step.
ImageShape step_image(const Config& config, const DataNeed& data, Purpose purpose);
// The step for the full batch: of training where there is one, else of evaluation.
CompiledStep& first_step(Session& session, const RunSteps& steps);

// What the loaders of a training or an evaluation ask for, a block for each.
std::vector<HostBuffer> loader_blocks(const Config& config, const DataNeed& data, Purpose purpose,
                                      Device device = {});

// What the run asks for besides Session::regions(), a block for each holder. `persistent`: the
// session's tensors, whose values need not be there.
std::vector<HostBuffer> blocks_beside(const Config& config, const DataNeed& data, Purpose purpose,
                                      const Tensors& persistent);

}  // namespace tessera
