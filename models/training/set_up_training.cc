#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/storage.h"
#include "tessera/engine/store.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/plan_report.h"
#include "tessera/layers/modules.h"
#include "tessera/memory/plan_draw.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/processes.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/report.h"
#include "tessera/runtime/text/terminal.h"

namespace tessera {

namespace {

std::vector<float> normalised_images(const Dataset& data, int64_t count,
                                     const Normalization& normalization) {
  const ImageShape shape = data.shape();
  const auto bytes = static_cast<size_t>(shape.bytes());
  const auto channels = static_cast<size_t>(shape.channels);
  std::vector<uint8_t> image(bytes);
  std::vector<float> all;
  all.reserve(static_cast<size_t>(count) * bytes);
  for (int64_t i = 0; i < count; ++i) {
    data.read(i * data.count() / count, image.data());
    for (size_t k = 0; k < bytes; ++k)
      all.push_back((static_cast<float>(image[k]) / 255 - normalization.mean[k % channels]) /
                    normalization.std[k % channels]);
  }
  return all;
}

// Sets the filters of `whiten` layers (layers/modules.h) before the first step from up to 1,024
// normalised images, spread evenly over the set, without augmentation. Reads nothing if the store
// has no such layer. Throws DataError if an image cannot be read.
void whiten(Store& store, const Dataset& train, const Normalization& normalization) {
  const std::string suffix = std::string(".") + Whitening::kFilters;
  for (Tensor filters : store.buffers()) {
    if (!filters.impl()->storage->name.ends_with(suffix)) continue;
    const int64_t count = std::min<int64_t>(1024, train.count());
    const ImageShape image = train.shape();
    const std::vector<float> images = normalised_images(train, count, normalization);
    filters.assign(std::span<const float>(
        whitening_filters(images, {count, image.height, image.width, image.channels},
                          filters.shape()[1], Whitening::kEps)));
  }
}

// Writes the files of the run folder that are known before the first step.
void describe(TrainingSetup& setup, const std::string& command) {
  const RunFolder& folder = *setup.folder;
  const std::vector<MemoryItem> blocks = setup.blocks();
  folder.write_memory(blocks);
  folder.write_split(setup.run.data());
  folder.put("env.json", environment_json(setup.run.device()));
  folder.put("inference.json", setup.inference.text(2) + "\n");
  if (!command.empty()) folder.add_command(command, setup.checkpoints->metrics_kept().has_value());
  const Config& config = setup.config();
  Session& session = setup.run.session();
  const CompiledGraph* compiled = first_step(session, setup.run.steps()).compiled_graph();
  if (compiled == nullptr) return;  // eager
  PlanReport report = plan_report(*compiled);
  setup.budget = budget_text(config, report.budget);
  report.add_parts(blocks);
  report.add_parts(session.gpu_regions(), true);
  report.inference = setup.inference.text();
  const PlanPicture picture =
      report.picture(fmt::format("{}, batch {}", config.model.name, config.data.batch));
  folder.put("plan.json", [&](const RunFolder::Piece& piece) { report.json(piece); });
  folder.put("plan.html", [&](const RunFolder::Piece& piece) {
    draw_plan_html({&picture, 1}, piece);
  });
  for (size_t i = 0; i < report.blocks.size(); ++i)
    report.problem.buffers[i].id =
        fmt::format("{} {}", report.blocks[i].title(), report.blocks[i].module_path);
  draw_plan_svg(report.problem, report.plan, 1150, 420,
                [&](std::string piece) { setup.drawing.push_back(std::move(piece)); });
  const Tensors& parameters = session.store().parameters();
  setup.summary = model_summary(compiled->graph, parameters) + "\n" + report.text() + "\n" +
                  libraries_text() + "\n";
  folder.put("model.txt", setup.summary);
  setup.overview = model_summary(compiled->graph, parameters, 1, columns_of(stdout));
}

// Returns the phases that are evaluated after the step that training resumes from.
std::vector<std::string_view> due_phases(const TrainingState& state) {
  if (state.evaluation_due == 0) return {};
  if (state.evaluation_due == 1) return {"validation", "test"};
  return {"test"};
}

// Returns the normalization if neither the configuration nor the data have one: that of the
// checkpoint, or one measured now, which `said` then reports.
Normalization found_normalization(const TrainingSetup& setup, const Dataset& train,
                                  std::string& said) {
  if (const CheckpointFile* beginning = setup.checkpoints->beginning()) {
    const auto kept = normalization_in(beginning->inference());
    return kept ? *kept : former_normalization(setup.config(), train);
  }
  const Normalization measured =
      measured_normalization(train, std::max<int>(1, setup.config().data.workers));
  const int64_t stride = measuring_stride(train.count());
  said = fmt::format("data.mean and data.std, measured on {} of {} training images: {}",
                     (train.count() + stride - 1) / stride, train.count(),
                     normalization_text(measured));
  return measured;
}

// Returns the configuration with the normalization that is used.
Config resolved(Config config, const Normalization& normalization) {
  const auto doubles = [](const std::vector<float>& values) {
    std::vector<double> result;
    for (float value : values) result.push_back(shortest(value));
    return result;
  };
  config.data.mean = doubles(normalization.mean);
  config.data.std = doubles(normalization.std);
  return config;
}

// Finds the checkpoint to begin from; all processes begin from the one that the leader finds.
std::unique_ptr<Checkpointing> find_checkpoint(const Run& run, const Print& print,
                                               TrainOptions options) {
  std::unique_ptr<Checkpointing> found;
  std::string path;
  if (run.leads()) {
    found = std::make_unique<Checkpointing>(run.config(), options, print);
    if (const CheckpointFile* beginning = found->beginning()) path = beginning->path();
  }
  if (run.exchange()) options.resume = text_of_leader(*run.exchange(), path);
  if (!found) found = std::make_unique<Checkpointing>(run.config(), options, print);
  return found;
}

struct Row {
  std::string module_path, ops, output;
  int64_t parameters = 0;
};

// Returns "layer1.0.conv1" for "layer1.0.conv1.weight".
std::string place_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

// Returns the first `depth` names of a module path.
std::string shortened(std::string_view module_path, int depth) {
  size_t end = 0;
  for (int i = 0; i < depth && end != module_path.npos; ++i)
    end = module_path.find('.', end == 0 ? 0 : end + 1);
  return std::string(module_path.substr(0, end));
}

// Cuts the ops of rows so that the table has lines of `columns` characters, but not below a dozen.
void shorten_ops(std::vector<Row>& rows, int columns, bool recomputes) {
  constexpr size_t kLeast = 12, kParameters = 10, kGaps = 6, kRecomputed = 15;  // "  12 recomputed"
  size_t module = 6, output = 6;
  for (const Row& row : rows) {
    module = std::max(module, row.module_path.size());
    output = std::max(output, row.output.size());
  }
  const size_t all = static_cast<size_t>(columns),
               others = module + output + kParameters + kGaps + (recomputes ? kRecomputed : 0);
  const size_t most = std::max(kLeast, all - std::min(all, others));
  for (Row& row : rows)
    if (row.ops.size() > most) row.ops = row.ops.substr(0, most - 3) + "...";
}

// Adds an op to a row unless the row has it.
void add_op(Row& row, const std::string& op) {
  constexpr size_t kMax = 60;
  if ((", " + row.ops + ",").find(", " + op + ",") != row.ops.npos) return;
  if (row.ops.size() + op.size() > kMax) {
    if (!row.ops.ends_with("...")) row.ops += ", ...";
    return;
  }
  if (!row.ops.empty()) row.ops += ", ";
  row.ops += op;
}

}  // namespace

TrainingSetup::TrainingSetup(Run own) : run(std::move(own)) {}
TrainingSetup::TrainingSetup(TrainingSetup&&) noexcept = default;
TrainingSetup::~TrainingSetup() = default;

Tensors TrainingSetup::persistent() const { return run.session().store().persistent(); }

std::vector<MemoryItem> TrainingSetup::blocks() const {
  std::vector<MemoryItem> all = run.session().regions();
  for (const auto& more : {loader->host_buffers(), evaluator->loader().host_buffers(),
                           run.data().train->host_buffers(), run.data().test->host_buffers(),
                           checkpoints->host_buffers()})
    all.insert(all.end(), more.begin(), more.end());
  if (validation != nullptr)
    for (const auto& more :
         {validation->loader().host_buffers(), run.data().validation->host_buffers()})
      all.insert(all.end(), more.begin(), more.end());
  return all;
}

TrainingSetup set_up_training(const Run& run, const Print& print, const TrainOptions& options) {
  TrainingSetup setup(run.with([](Config&) {}));
  const Config& config = setup.config();
  setup.quiet = options.quiet;
  setup.print = [&print, leads = run.leads()](const std::string& line) {
    if (!leads) return;
    const WithoutStatus above;
    print(line);
  };
  require_run_folder(config.run.dir);
  available_memory();  // records the free memory before anything is allocated
  // 1. Lock the run folder if it exists, so that what is read from it next does not change.
  if (run.leads()) setup.lock = std::make_unique<RunLock>(config.run.dir);
  // 2. Find the checkpoint to begin from. Fails before data are opened, which may take minutes.
  setup.checkpoints = find_checkpoint(run, setup.print, options);
  std::unique_ptr<Pretrained> pretrained;
  if (!config.model.weights.empty() && setup.checkpoints->beginning() == nullptr)
    pretrained = std::make_unique<Pretrained>(config.model.weights);
  // 3. Open the data and make the session with all its steps, which has no memory yet; check the
  //    memory limit.
  std::string measured;
  setup.run.open([&](const Dataset& train) { return found_normalization(setup, train, measured); });
  const DataSplit& data = setup.run.data();
  compare_processes(setup.run);
  require_fit(setup.run);
  setup.checkpoints->check_machine(setup.run.device());
  if (!measured.empty()) setup.print(measured);
  if (pretrained != nullptr) setup.print(pretrained->match(config, setup.run.image()));
  setup.inference = inference_json(config, setup.run.image(), setup.run.normalization(),
                                   data.train->class_names());
  check_classes(config, *data.train);
  check_epochs(config, data.train->count());
  if (!options.overwrite && run.leads())
    require_room(config.run.dir, Checkpointing::bytes_on_disk(config, setup.persistent()));
  if (const std::string spare = spare_classes(config, *data.train); !spare.empty())
    log(LogLevel::warning, spare);
  // 4. Make the loaders, whose threads begin to read.
  Session& session = setup.run.session();
  setup.loader = std::make_unique<Loader>(data.train, setup.run.training_loader(session.device()),
                                          session.staging_memory());
  setup.evaluator = std::make_unique<Evaluator>(setup.run, data.test);
  if (data.validation != nullptr)
    setup.validation = std::make_unique<Evaluator>(setup.run, data.validation);
  setup.total_steps = config.train.total_steps(setup.loader->batches());
  // 5. Allocate the memory of the steps and of the checkpoints. If that fails, the folder is still
  //    as it was.
  session.bind();
  setup.checkpoints->reserve(setup.persistent(), setup.loader->batches(),
                             padded_inference(setup.inference, config));
  // 6. Set the initial values. Fails if the checkpoint is of other data.
  setup.state.batches = setup.loader->batches();
  setup.state.images = setup.loader->samples();
  setup.state.seed = static_cast<int64_t>(config.seed);
  if (setup.checkpoints->beginning() == nullptr)
    whiten(session.store(), *data.train, setup.run.normalization());
  if (pretrained != nullptr) pretrained->load(session.store());
  setup.checkpoints->restore(setup.persistent(), setup.state);
  if (setup.gives_up()) setup.total_steps = std::min(setup.total_steps, setup.state.step);
  setup.loader->start_epoch(setup.state.epoch, setup.state.batch);
  if (!run.leads()) return setup;
  // 7. Make the folder unless it exists. Files of an earlier training are removed only now that all
  //    checks have passed, and not if they appeared while this training was prepared.
  setup.lock->make();
  setup.checkpoints->refuse_to_overwrite();
  setup.checkpoints->clear();
  setup.folder = std::make_unique<RunFolder>(
      resolved(config, setup.run.normalization()), setup.checkpoints->metrics_kept(),
      options.file_system(), inference_comment(setup.inference), due_phases(setup.state));
  // 8. Start the writer of checkpoints, which needs the cleared folder and its open metrics.
  setup.checkpoints->start(setup.persistent(), setup.state, setup.folder->descriptors());
  // 9. Write the description of the training.
  describe(setup, options.command);
  return setup;
}

std::string model_summary(const Graph& graph, const Tensors& parameters, int depth, int columns) {
  std::map<std::string, int64_t> counts;
  int64_t total = 0, bytes = 0;
  for (const Tensor& parameter : parameters) {
    const std::string module_path = place_of(parameter.impl()->storage->name);
    counts[shortened(module_path, depth)] += parameter.shape().elements();
    total += parameter.shape().elements();
    bytes += static_cast<int64_t>(parameter.spec().bytes());
  }
  std::vector<Row> rows;
  std::map<std::string, int> recomputed;
  for (const Node& s : graph.nodes)
    if (s.recomputed) ++recomputed[shortened(s.module_path, depth)];
  for (const Node& s : graph.nodes) {
    if (s.phase != Phase::forward || s.recomputed) continue;
    const std::string at = shortened(s.module_path, depth);
    if (rows.empty() || rows.back().module_path != at)
      rows.push_back({at, "", "", std::exchange(counts[at], 0)});
    add_op(rows.back(), std::string(s.op->name()));
    for (ValueId id : s.outputs) {  // updates and statistics have no output to show
      const Value& value = graph.values[id];
      if (value.role == Role::intermediate && id == s.outputs[0])
        rows.back().output = value.spec.text();
    }
  }
  Table table({{nullptr, "module", true},
               {nullptr, "ops", true},
               {nullptr, "output", true},
               {nullptr, "parameters"},
               {nullptr, "", true}});
  if (columns > 0) shorten_ops(rows, columns, !recomputed.empty());
  for (const Row& row : rows) {
    const int again = std::exchange(recomputed[row.module_path], 0);
    table.add({row.module_path, row.ops, row.output, row.parameters > 0 ? Cell(row.parameters) : "",
               again > 0 ? fmt::format("{} recomputed", again) : ""});
  }
  return table.text() + fmt::format("{} parameters in {} tensors, {:.2f} MiB\n", total,
                                    parameters.size(), static_cast<double>(bytes) / (1 << 20));
}

}  // namespace tessera
