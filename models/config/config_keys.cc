#include "tessera/models/config/config_keys.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/memory/allocator.h"
#include "tessera/memory/plan.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/data/sets/image_folder.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {

namespace {

// The types of ConfigKey::Target in order, for errors and help, with an example if one is needed.
constexpr std::pair<const char*, const char*> kTypeTexts[] = {
    {"true or false", ""},
    {"an integer", ""},
    {"an integer", ""},
    {"an integer", ""},
    {"a number", ""},
    {"a string", ""},
    {"a duration in epochs or steps", " (such as 2ep or 500st)"},
    {"a size in B, KiB, MiB, GiB or TiB", " (such as 512MiB)"},
    {"a name", ""},
    {"none, a percentage or number of training images, or a folder of image_folder",
     " (such as 10%, 5000 or val)"},
    {"auto or an integer", ""},
    {"none or an integer", ""},
    {"none or a size in B, KiB, MiB, GiB or TiB", " (such as 512MiB)"},
    {"none or a number", ""},
    {"a list of integers", ""},
    {"a list of numbers", ""},
    {"a list of durations in epochs or steps", " (such as [30ep, 500st])"},
    {"a list of sizes in B, KiB, MiB, GiB or TiB", " (such as [2GiB, 512MiB])"},
    {"a list of names", " (such as [conv1, layer1])"},
    {"a list", " (such as [{crop: {padding: 4}}, {flip: horizontal}])"},
    {"a list of layers", " (such as [{conv: {filters: 32, kernel: 3}}, relu])"},
    {"a list", " (such as [{vectors: {weight_decay: 0}}, {named: {part: fc, lr: 10}}])"},
};
static_assert(std::size(kTypeTexts) == std::variant_size_v<ConfigKey::Target>);

std::string range_text(const KeyRule& rule) {
  std::string text;
  if (std::isfinite(rule.min)) {
    text += fmt::format(" {} {}", rule.above_min ? "above" : "from", rule.min);
    if (!std::isfinite(rule.max)) return text + (rule.above_min ? "" : " on");
  }
  if (!std::isfinite(rule.max)) return text;
  const char* word = rule.below_max ? "below" : (text.empty() ? "at most" : "to");
  return text +
         fmt::format("{} {} {}", rule.below_max && !text.empty() ? " and" : "", word, rule.max);
}

std::vector<std::string> registered_names(const auto& registered) {
  std::vector<std::string> names;
  for (const auto* one : registered) names.emplace_back(one->name());
  return names;
}

std::string image_size_help() {
  return fmt::format("pixels per side, from 1; synthetic: {} to {}, 0: 32", kSmallestSynthetic,
                     kLargestSynthetic);
}

std::string some(int count) { return count == 0 ? "0" : "1 or more"; }

// The data set as a choice: some keys apply only to some HDF5 files.
constexpr const char* kNamedArrays = "hdf5 with data.images";
constexpr const char* kCutFile = "hdf5 with data.images without {split}";
std::string arrays(const Config& c) {
  return c.data.name == "hdf5" && !c.data.images.empty() ? kNamedArrays : c.data.name;
}
std::string cut(const Config& c) {
  const bool has_split = c.data.images.find("{split}") != std::string::npos;
  return arrays(c) == kNamedArrays && !has_split ? kCutFile : arrays(c);
}

// The precision as a choice: losses are scaled only in float16.
constexpr const char* kDynamicScale = "f16 with train.loss_scaling: dynamic";
constexpr const char* kConstantScale = "f16 with train.loss_scaling: constant";
std::string scaling(const Config& c) {
  const LossScaling how = loss_scaling(c);
  if (how == LossScaling::off) return c.precision.text();
  return how == LossScaling::dynamic ? kDynamicScale : kConstantScale;
}

// A device that does not clearly name a CPU may be a GPU.
const Choice kByDevice{
    "device", [](const Config& c) { return std::string(names_cpu(c) ? "cpu" : "gpu"); }, false};
const Choice kByMode{"mode", [](const Config& c) { return c.mode.text(); }};
const Choice kByData{"data.name", [](const Config& c) { return c.data.name; }};
const Choice kByArrays{"data.name", arrays}, kByCut{"data.name", cut};
const Choice kByWorkers{"data.workers", [](const Config& c) { return some(c.data.workers); },
                        false};
const Choice kByLoss{"loss.name", [](const Config& c) { return c.loss.name.text(); }};
const Choice kByOptimizer{"optimizer.name", [](const Config& c) { return c.optimizer.name; }};
const Choice kBySchedule{"schedule.name", [](const Config& c) { return c.schedule.name.text(); },
                         true, false};
const Choice kByPrecision{"precision", [](const Config& c) { return c.precision.text(); }};
const Choice kByScaling{"precision", scaling};
const Choice kByEma{
    "ema.decay", [](const Config& c) { return std::string(c.ema.decay ? "any number" : "none"); },
    false};
const Choice kByKeep{"checkpoint.keep", [](const Config& c) { return some(c.checkpoint.keep); },
                     false};

When when(const Choice& choice, std::vector<std::string> values) {
  return {&choice, std::move(values), choice.in_help, choice.puts_aside};
}
// Leaves the values out of the help.
When quietly(When when) {
  when.in_help = false;
  return when;
}
// Makes a key of the file an error if an override leaves the key without effect.
When strictly(When when) {
  when.puts_aside = false;
  return when;
}
When having(const char* option) { return when(kByOptimizer, optimizers_with(option)); }

// Returns the published data sets with coarse and fine labels, and files whose labels have a path.
std::vector<std::string> sets_with_labels() {
  std::vector<std::string> names;
  for (const PublishedSet& set : published_sets())
    if (set.labels.size() > 1) names.push_back(set.name);
  names.emplace_back(kNamedArrays);
  return names;
}

std::vector<std::string> sets_with_files() {
  std::vector<std::string> names = data_names();
  std::erase(names, "synthetic");
  return names;
}

// Begins help with the networks that have the option.
std::string of_networks(const char* option, const char* help) {
  return fmt::format("{}: {}", families_with(option), help);
}

constexpr double kInts = std::numeric_limits<int>::max();
// The largest number of images; their bytes fit into 64 bits (models/training/memory_need.h).
constexpr double kMaxImages = 0x1p32;

// A name that earlier versions used in a scope (see meant_name()).
struct EarlierName {
  std::string_view scope, earlier, current;
};
constexpr EarlierName kEarlierNames[] = {
    {"data", "read_ahead", "prefetch"},           {"data", "test_part", "test_fraction"},
    {"optimizer", "trust", "trust_coefficient"},  {"memory", "costs", "cost_model"},
    {"memory.cost_model", "counted", "roofline"}, {"gpu.plans", "rule", "heuristic"},
    {"gpu.plans", "tuned", "autotuned"},          {"max_pool", "round_up", "ceil_mode"},
    {"average_pool", "round_up", "ceil_mode"},    {"layer_scale", "start", "init_value"},
};

// Returns the current name of `word`; `word` itself unless an earlier version used it.
std::string_view current_name(std::string_view scope, std::string_view word) {
  for (const EarlierName& name : kEarlierNames)
    if (name.scope == scope && name.earlier == word) return name.current;
  return word;
}

// Replaces the names of options in a line of a layer, `- {max_pool: {size: 3, round_up: true}}`.
std::string with_current_options(std::string line) {
  for (const EarlierName& name : kEarlierNames) {
    const std::string begin = fmt::format("{{{}: {{", name.scope);
    const std::string earlier = fmt::format("{}: ", name.earlier);
    for (size_t at = line.find(begin); at != line.npos; at = line.find(begin, at + 1)) {
      const size_t option = line.find(earlier, at + begin.size());
      if (option < line.find('}', at) && (line[option - 1] == '{' || line[option - 1] == ' '))
        line.replace(option, name.earlier.size(), name.current);
    }
  }
  return line;
}

// Short forms of rules that only keys have.
KeyRule between(double min, double max) {  // (min, max)
  return {.min = min, .max = max, .above_min = true, .below_max = true};
}
KeyRule or_auto(KeyRule rule) {
  rule.automatic = true;
  return rule;
}
KeyRule or_time(KeyRule rule) {
  rule.time = true;
  return rule;
}
KeyRule or_list(KeyRule rule, const std::string& name, const std::vector<float>& list) {
  rule.lists.emplace_back(name, std::vector<double>());
  for (float value : list) rule.lists.back().second.push_back(shortest(value));
  return rule;
}

// One line per key.
// clang-format off
std::vector<ConfigKey> keys_of_model_and_data(Config& c) {
  const When gpu = when(kByDevice, {"gpu"}), hdf5 = when(kByData, {"hdf5"});
  const When arrays = when(kByArrays, {kNamedArrays}), folder = when(kByData, {"image_folder"});
  return {
    {"seed", &c.seed, at_least(0), "seed of all random numbers"},
    {"device", &c.device, any(), "cpu, gpu, auto, or a name from `trainer devices`"},
    {"mode", &c.mode, one_of<Mode>(), "capture and plan the step, or run op by op"},
    {"precision", &c.precision, one_of<Precision>(), "of activations and their gradients in memory; parameters, sums, statistics and losses are always float32 (docs/training.md)"},
    {"deterministic", &c.deterministic, any(), strictly(gpu), "same bits in every run; always true on the CPU"},
    {"threads", &c.threads, at_least(0, 1024), "threads of a step; 0: all cores"},

    {"model.name", &c.model.name, one_of(model_names()), "the network"},
    {"model.classes", &c.model.classes, at_least(0, kInts), "outputs of the last layer; 0: the classes of the data"},
    {"model.weights", &c.model.weights, any(), "file with initial values: safetensors, or HDF5 (docs/weights.md)"},
    {"model.dropout", &c.model.dropout, from_below(0, 1), "probability; none: the model's own"},
    {"model.widths", &c.model.widths, at_least(1, kInts), of_networks("widths", "units or filters per layer")},
    {"model.depth", &c.model.depth, at_least(1, 10000), of_networks("depth", "6 n + 4 layers")},
    {"model.widen", &c.model.widen, at_least(1, 1000), of_networks("widen", "factor of the channels")},
    {"model.growth", &c.model.growth, at_least(1, 10000), of_networks("growth", "channels added per layer")},
    {"model.stochastic_depth", &c.model.stochastic_depth, from_below(0, 1), of_networks("stochastic_depth", "probability that a sample skips the last block, smaller for earlier blocks; none: the model's own")},
    {"model.layers", &c.model.layers, any(), "a custom model, layer by layer, instead of name"},

    {"data.name", &c.data.name, one_of(data_names()), "the data set"},
    {"data.root", &c.data.root, any(), quietly(when(kByData, sets_with_files())), "folder of the data files; hdf5: the file"},
    {"data.batch", &c.data.batch, at_least(1, kMaxBatch), "images per step"},
    {"data.workers", &c.data.workers, at_least(0, kMaxWorkers), "loader threads; 0: the training thread; auto: one per core, at most 16"},
    {"data.prefetch", &c.data.prefetch, at_least(1, 1024), when(kByWorkers, {"1 or more"}), "maximum number of prefetched batches"},
    {"data.image_size", &c.data.image_size, at_least(0, kLargestFolderImage), strictly(when(kByData, {"image_folder", "synthetic"})), image_size_help()},
    {"data.resize", &c.data.resize, at_least(0, kLargestFolderImage), strictly(folder), "pixels of a picture's short side before its center, image_size, is cropped, such as 256 for 224; 0: image_size"},
    {"data.labels", &c.data.labels, any(), quietly(when(kByArrays, sets_with_labels())), "cifar100: fine (100 classes) or coarse (20); hdf5: path of the labels"},
    {"data.images", &c.data.images, any(), hdf5, "path of the images, such as /{split}/images, where {split} is train and test; none: a packed file"},
    {"data.layout", &c.data.layout, one_of({"hwc", "chw", "cwh"}), arrays, "order of an image's dimensions; cwh: MATLAB"},
    {"data.range", &c.data.range, at_least(-kMaxFloat, kMaxFloat), arrays, "[low, high]: the values of black and white; []: 0 to 255, for floats 0 to 1"},
    {"data.class_names", &c.data.class_names, any(), arrays, "path, or path@attribute, of the names; none: class_names next to the labels"},
    {"data.test_fraction", &c.data.test_fraction, from_below(0, 1), when(kByCut, {kCutFile, "image_folder"}), "fraction of each class in the test set if the data have none; the same images in every run. 0, for an evaluation: all images"},
    {"data.cache", &c.data.cache, above(0), hdf5, "memory for decoded images, per split"},
    {"data.damaged", &c.data.damaged, one_of<Damaged>(), strictly(folder), "a damaged picture is an error, or is skipped"},
    {"data.channels", &c.data.channels, one_of<Channels>(), folder, "1: gray, 3: color, auto: 1 if all pictures are stored in gray"},
    {"data.follow_links", &c.data.follow_links, any(), folder, "allow links out of data.root"},
    {"data.train_count", &c.data.train_count, at_least(0, kMaxImages), "training images used; 0: all"},
    {"data.test_count", &c.data.test_count, at_least(0, kMaxImages), "test images used; 0: all"},
    {"data.sampling", &c.data.sampling, one_of<Sampling>(), "training images: each once per epoch, or drawn with replacement so that all classes are equally frequent"},
    {"data.validation", &c.data.validation, any(), "training images held out to select the best checkpoint, so that the test set is evaluated once, at the end; drawn by the seed, in proportion to the classes"},
    {"data.augment", &c.data.augment, any(), "augmentation of training images, in order"},
    {"data.mean", &c.data.mean, or_list(at_least(-kMaxFloat, kMaxFloat), "imagenet", imagenet_normalization().mean), "per channel, of pixels / 255; []: the data set's own, measured if it has none; imagenet: ImageNet's, also for data.std"},
    {"data.std", &c.data.std, or_list(at_least(kMinFloat, kMaxFloat), "imagenet", imagenet_normalization().std), "per channel, of pixels / 255; []: the data set's own"},
  };
}

std::vector<ConfigKey> keys_of_training(Config& c) {
  const KeyRule share = from_below(0, 1), positive = at_least(kMinFloat, kMaxFloat);
  return {
    {"loss.name", &c.loss.name, one_of<LossKind>(), "the training loss; evaluations always show the cross-entropy"},
    {"loss.label_smoothing", &c.loss.label_smoothing, from_below(0, 1), "probability spread over all classes"},
    {"loss.class_weights", &c.loss.class_weights, at_least(0, kMaxFloat), when(kByLoss, {"cross_entropy"}), "one weight per class; []: equal weights"},
    {"loss.target_threshold", &c.loss.target_threshold, from_below(0, 1), when(kByLoss, {"bce"}), "targets above it become 1, the others 0, so mixed images have both classes"},

    {"optimizer.name", &c.optimizer.name, one_of(optimizer_names()), "the optimizer"},
    {"optimizer.lr", &c.optimizer.lr, at_least(0, kMaxFloat), "learning rate, scaled by the schedule; by default: " + usual_lrs()},
    {"optimizer.momentum", &c.optimizer.momentum, share, having("momentum"), "momentum factor; muon: usually 0.95"},
    {"optimizer.nesterov", &c.optimizer.nesterov, any(), having("nesterov"), "Nesterov momentum; muon: usually true"},
    {"optimizer.weight_decay", &c.optimizer.weight_decay, at_least(0, kMaxFloat), "weight decay factor"},
    {"optimizer.decay_vectors", &c.optimizer.decay_vectors, any(), "apply weight_decay to 1-D parameters (biases, norm scales) too"},
    {"optimizer.vector_lr", &c.optimizer.vector_lr, at_least(0, kMaxFloat), "factor of lr for 1-D parameters (biases, norm scales)"},
    {"optimizer.beta1", &c.optimizer.beta1, share, having("beta1"), "decay of the first moment; muon: for vectors"},
    {"optimizer.beta2", &c.optimizer.beta2, share, having("beta2"), "decay of the second moment; lion: of the momentum, usually 0.99; muon: for vectors"},
    {"optimizer.eps", &c.optimizer.eps, positive, having("eps"), "added to the divisor; lamb: usually 1e-6; muon: for vectors"},
    {"optimizer.alpha", &c.optimizer.alpha, share, having("alpha"), "decay of the squared gradients"},
    {"optimizer.eps_in_root", &c.optimizer.eps_in_root, any(), having("eps_in_root"), "like TensorFlow and timm's rmsproptf: sqrt(square + eps), squares start at 1, momentum of updates"},
    {"optimizer.trust_coefficient", &c.optimizer.trust_coefficient, positive, having("trust_coefficient"), "norm of an update relative to the parameter's norm"},
    {"optimizer.ns_steps", &c.optimizer.ns_steps, at_least(1, 100), having("ns_steps"), "number of Newton-Schulz iterations"},
    {"optimizer.match_adamw", &c.optimizer.match_adamw, any(), having("match_adamw"), "scale updates to AdamW's size, so that AdamW's lr fits"},
    {"optimizer.clip_norm", &c.optimizer.clip_norm, above(0, kMaxFloat), "maximum global norm of the gradients; keeps all gradients in memory at once"},
    {"optimizer.clip_value", &c.optimizer.clip_value, above(0, kMaxFloat), "maximum absolute value of each element of the gradients"},
    {"optimizer.layer_decay", &c.optimizer.layer_decay, above(0, 1), "factor of lr from a layer to the previous one; the last layer has 1"},
    {"optimizer.groups", &c.optimizer.groups, any(), "factors of lr and weight_decay for groups of parameters"},

    {"schedule.name", &c.schedule.name, one_of<ScheduleKind>(), "learning-rate schedule"},
    {"schedule.warmup", &c.schedule.warmup, at_least(0), "duration of the linear warm-up"},
    {"schedule.every", &c.schedule.every, above(0), when(kBySchedule, {"step", "exponential"}), "time between multiplications by gamma, spread over all steps by exponential (PyTorch: step_size)"},
    {"schedule.milestones", &c.schedule.milestones, above(0), when(kBySchedule, {"multistep"}), "times at which gamma is applied"},
    {"schedule.gamma", &c.schedule.gamma, above(0, kMaxFloat), when(kBySchedule, {"step", "multistep", "exponential", "plateau"}), "factor of lr"},
    {"schedule.final_lr", &c.schedule.final_lr, at_least(0, kMaxFloat), when(kBySchedule, {"cosine", "linear", "one_cycle", "polynomial", "cosine_restarts", "wsd", "plateau"}), "final learning rate; plateau: the minimum (PyTorch: eta_min)"},
    {"schedule.start_factor", &c.schedule.start_factor, at_least(0, 1), when(kBySchedule, {"one_cycle"}), "initial learning rate / lr"},
    {"schedule.peak_at", &c.schedule.peak_at, between(0, 1), when(kBySchedule, {"one_cycle"}), "fraction of the training before the peak (PyTorch: pct_start)"},
    {"schedule.power", &c.schedule.power, above(0, 100), when(kBySchedule, {"polynomial"}), "lr falls as (1 - fraction done)^power"},
    {"schedule.period", &c.schedule.period, above(0), when(kBySchedule, {"cosine_restarts"}), "duration of the first cycle (PyTorch: T_0)"},
    {"schedule.period_factor", &c.schedule.period_factor, at_least(1, 1000), when(kBySchedule, {"cosine_restarts"}), "factor from one cycle to the next (PyTorch: T_mult)"},
    {"schedule.decay", &c.schedule.decay, above(0), when(kBySchedule, {"wsd"}), "duration of the decay at the end; lr is constant between warm-up and decay"},
    {"schedule.patience", &c.schedule.patience, at_least(0, kInts), when(kBySchedule, {"plateau"}), "evaluations without a better loss before lr is reduced"},
    {"schedule.cooldown", &c.schedule.cooldown, at_least(0, kInts), when(kBySchedule, {"plateau"}), "evaluations after a reduction that do not count"},
    {"schedule.threshold", &c.schedule.threshold, from_below(0, 1), when(kBySchedule, {"plateau"}), "relative improvement for a loss to count as better"},

    {"train.epochs", &c.train.epochs, above(0, kMaxEpochs), "duration in epochs; or set steps"},
    {"train.steps", &c.train.steps, at_least(1, kMaxSteps), "duration in steps, instead of epochs"},
    {"train.non_finite", &c.train.non_finite, one_of<OnNonFinite>(), "a batch with a loss or gradients that are not finite stops the training, or is skipped without an update; skip keeps all gradients in memory at once"},
    {"train.loss_scaling", &c.train.loss_scaling, one_of<LossScaling>(), when(kByPrecision, {"f16"}), "multiply the loss before the backward pass, so that small gradients do not become 0; a step whose gradients overflow is skipped; dynamic: the factor is then halved"},
    {"train.loss_scale", &c.train.loss_scale, above(0, 0x1p32), when(kByScaling, {kDynamicScale, kConstantScale}), "the factor, of the first step if dynamic (PyTorch: init_scale)"},
    {"train.loss_scale_interval", &c.train.loss_scale_interval, at_least(1, 0x1p24), when(kByScaling, {kDynamicScale}), "steps without an overflow before the factor is doubled (PyTorch: growth_interval)"},
    {"train.evaluate_every", &c.train.evaluate_every, at_least(0), "time between evaluations; 0: only at the end"},
    {"train.log_every", &c.train.log_every, at_least(0), "time between lines of metrics, printed if there is no progress bar; 0: at the end of epochs; the line at the end of an epoch covers the whole epoch"},

    {"train.accumulate", &c.train.accumulate, at_least(1, 4096), "gradient accumulation: a step computes its batch in this number of parts and adds their gradients; needs the memory of one part; batch norms normalize each part separately"},
    {"train.patience", &c.train.patience, at_least(0, kInts), "early stopping: evaluations without a new best (checkpoint.best) before training ends; 0: off"},
    {"train.freeze", &c.train.freeze, any(), "frozen parts of the network, norms with their running statistics: no gradients, no optimizer state"},
    {"train.freeze_all_but", &c.train.freeze_all_but, any(), "freezes all other parts; []: none"},
    {"ema.decay", &c.ema.decay, from_below(0, 1), "decay of averaged weights (EMA), which are evaluated and saved as weights.safetensors; none: no averaging"},
    {"ema.warmup", &c.ema.warmup, any(), when(kByEma, {"any number"}), "a smaller decay in the first steps: 1 - (1 + s)^(-2/3) in step s"},
    {"eval.batch", &c.eval.batch, at_least(0, kMaxBatch), "images per evaluation step; 0: data.batch, with train.accumulate its largest part"},
    {"eval.flip", &c.eval.flip, any(), "test-time augmentation: mean logits of each image and its flipped copy"},
    {"eval.shift", &c.eval.shift, at_least(0, 15), "test-time augmentation: mean logits of each image and two copies shifted by this number of pixels, up and left, and down and right"},
  };
}

std::vector<ConfigKey> keys_of_the_machine(Config& c) {
  const When gpu = when(kByDevice, {"gpu"}), kept = when(kByKeep, {"1 or more"});
  const When graph = when(kByMode, {"graph"}), eager = when(kByMode, {"eager"});
  return {
    {"cpu.kernels", &c.cpu.kernels, one_of<CpuKernels>(), "matrix products and convolutions: native kernels for AVX2 and AVX-512, or Eigen's; auto: native if the processor supports them"},
    {"cpu.winograd", &c.cpu.winograd, one_of<Winograd>(), "Winograd's algorithm for native convolutions with 3x3 filters; auto: if faster for the shape; the rounding errors are a little larger"},
    {"gpu.tf32", &c.gpu.tf32, any(), gpu, "round the factors of float32 products and convolutions to TF32 (ten bits of mantissa), on GPUs with tensor cores for it; exact products take many times as long"},
    {"gpu.cuda_graph", &c.gpu.cuda_graph, any(), gpu, "mode graph: from the second run on a step is launched as one CUDA graph; false launches each kernel"},
    {"gpu.synchronous", &c.gpu.synchronous, any(), gpu, "wait after each op, as CUDA_LAUNCH_BLOCKING=1, so that the error of a kernel names its op; slow"},
    {"gpu.workspace", &c.gpu.workspace, above(0), gpu, "maximum scratch of an op in bytes"},
    {"gpu.plans", &c.gpu.plans, one_of<GpuPlans>(), gpu, "selection of cuDNN's plans for convolutions: cuDNN's heuristic, with the same bits on every GPU of a kind, or the fastest plan that trainer tune measured on this computer"},
    {"devices.cpu", &c.devices.cpu, above(0), "divides the CPU into logical devices cpu:0, cpu:1 and so on, each with this memory limit; they share the threads; []: one device"},
    {"devices.gpu", &c.devices.gpu, above(0), gpu, "divides gpu:0 in the same way; other GPUs are not divided and are listed first"},
    {"memory.planner", &c.memory.planner, one_of(registered_names(planners())), graph, "the planner that assigns offsets in the arena"},
    {"memory.limit", &c.memory.limit, above(0), "limit of the host memory of the engine: a training that needs more is refused"},
    {"memory.gpu_limit", &c.memory.gpu_limit, above(0), gpu, "limit of the GPU memory of the engine: a training that needs more is refused"},
    {"memory.budget", &c.memory.budget, or_auto(above(0)), strictly(graph), "activation checkpointing: recomputes activations until the memory that memory.limit counts (on a GPU: memory.gpu_limit) fits; same bits; auto: the free memory"},
    {"memory.recompute", &c.memory.recompute, one_of(registered_names(recompute_strategies())), graph, "with a budget: the strategy that chooses what is recomputed"},
    {"memory.cost_model", &c.memory.cost_model, any(), graph, "costs of ops for budgets and estimates: roofline, computed from their sizes, or a file of trainer profile --machine or --json with measured times"},
    {"memory.allocator", &c.memory.allocator, one_of(known_allocators()), eager, "allocator of tensors; caching keeps released blocks, direct allocates each tensor from the system"},
    {"memory.reserve", &c.memory.reserve, above(0), eager, "bytes that caching allocates before the first step; it allocates more if needed, up to the limit"},

    {"checkpoint.every", &c.checkpoint.every, or_time(at_least(0)), "time between checkpoints; 0: only at the end"},
    {"checkpoint.keep", &c.checkpoint.keep, at_least(0, 1000), "number of newest checkpoints to keep; 0: write none"},
    {"checkpoint.best", &c.checkpoint.best, one_of<BestBy>(), kept, "also keep the best checkpoint, measured on data.validation, else on the test set"},
    {"checkpoint.use", &c.checkpoint.use, one_of({"best", "last"}), kept, "with data.validation: the weights that are saved as weights.safetensors and tested; without data.validation, the last"},

    {"resume.exact", &c.resume.exact, any(), "refuse to resume with another instruction set, device, kernels setting, build or C library than in the run's env.json, as the bits may differ; false: only warn"},

    {"distributed.timeout", &c.distributed.timeout, at_least(1, 86400), "of several processes (mpirun): seconds that one waits for another before the training fails"},

    {"run.dir", &c.run.dir, any(), "folder for results"},
  };
}
// clang-format on

}  // namespace

std::string meant_name(std::string_view scope, std::string_view word,
                       const std::vector<std::string>& known) {
  const std::string_view current = current_name(scope, word);
  return current == word ? nearest_spelling(word, known) : std::string(current);
}

std::string with_current_names(std::string_view printed) {
  std::string text, group;
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("    - ")) {
      line = with_current_options(line);
    } else if (colon != line.npos && !line.starts_with(' ')) {
      group = line.substr(0, colon);
    } else if (colon != line.npos && line.starts_with("  ")) {
      const std::string_view key = current_name(group, std::string_view(line).substr(2, colon - 2));
      const std::string_view rest = std::string_view(line).substr(colon + 1);
      const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
      const std::string_view value = rest.substr(begin, rest.find(' ', begin) - begin);
      line = fmt::format("  {}:{}{}{}", key, rest.substr(0, begin),
                         current_name(fmt::format("{}.{}", group, key), value),
                         rest.substr(begin + value.size()));
    }
    text += line + '\n';
  }
  return text;
}

std::string group_of(const std::string& path) {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

ConfigKey::ConfigKey(std::string path, Target target, KeyRule rule, std::string help)
    : path(std::move(path)), target(target), rule(std::move(rule)), help(std::move(help)) {}

ConfigKey::ConfigKey(std::string path, Target target, KeyRule rule, When when,
                     const std::string& help)
    : ConfigKey(std::move(path), target, std::move(rule),
                when.in_help ? fmt::format("{}: {}", fmt::join(when.values, ", "), help) : help) {
  this->when = std::move(when);
}

std::string expected(const ConfigKey& key) {
  if (!key.rule.names.empty()) return fmt::format("one of {}", fmt::join(key.rule.names, ", "));
  std::string type = kTypeTexts[key.target.index()].first;
  const char* example = kTypeTexts[key.target.index()].second;
  if (key.rule.automatic) type = "none, auto or a size in B, KiB, MiB, GiB or TiB";
  if (key.rule.time) {
    type = "a duration in epochs, steps, minutes or hours";
    example = " (such as 2ep, 500st, 10min or 1h)";
  }
  std::string lists;
  for (const auto& entry : key.rule.lists) lists += ", or " + entry.first;
  return type + range_text(key.rule) + example + lists;
}

std::vector<ConfigKey> config_keys(Config& c) {
  std::vector<ConfigKey> keys = keys_of_model_and_data(c);
  for (auto* more : {keys_of_training, keys_of_the_machine})
    std::ranges::move(more(c), std::back_inserter(keys));
  return keys;
}

}  // namespace tessera
