// Config: the configuration of a run as plain structs, and functions that read and print its YAML.
//
// Reading is strict: a key that does not exist, a key given twice, a value of the wrong type, unit
// or range are errors with file:line:column, and all of them are reported at once in one
// ConfigErrors (models/config/diagnostics.h). Every key has a default, so an empty file is a
// configuration too.
//
//   Config config = load_config("resnet.yaml", {"train.steps=50", "~data.augment"});
//
// config_keys() is the only description of the keys: their rules, their help, and the choices for
// which they have an effect. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/models/config/diagnostics.h"
#include "tessera/models/data/augment/augment.h"
#include "tessera/models/data/dataset.h"
#include "tessera/runtime/context.h"

namespace tessera {

// A layer of a model that a configuration gives as a list of layers:
//
//   model:
//     classes: 10
//     layers:
//       - {conv: {filters: 32, kernel: 3, padding: 1}}
//       - batch_norm
//       - relu
//       - {residual: [{conv: {filters: 32, kernel: 3, padding: 1}}, relu]}
//       - global_average_pool
//       - {linear: {units: 10}}
//
// Shapes are inferred from the images: the first layer reads x [n, height, width, channels], and
// the last must return [n, classes]. layer_network.cc defines the kinds and their options. A layer
// is named by its kind and its index in its list: "conv0", "residual3.conv0".
struct LayerConfig {
  std::string kind = "relu";
  int64_t filters = 0, kernel = 0;                // conv; pixels a side
  int64_t stride = 1, padding = 0, dilation = 1;  // conv; pixels
  int64_t groups = 1;                             // conv, group_norm
  bool bias = true;                               // conv, linear
  bool identity = false;                          // conv: filters start as the identity
  int64_t size = 0;                               // pools: pixels a side
  std::optional<int64_t> pool_stride;             // pools; default: size
  int64_t units = 0;                              // linear
  double probability = 0.5;                       // dropout
  double eps = 1e-5;                              // norms
  double momentum = 0.1;                          // batch_norm
  bool scale = true;                              // batch_norm
  double factor = 1;                              // scale
  bool ceil_mode = false;                         // pools
  double slope = 0.01;                            // leaky_relu
  double first_slope = 0.25;                      // prelu
  double alpha = 1;                               // elu
  double init_value = 1e-6;                       // layer_scale
  int64_t squeeze = 0;                            // squeeze_excitation: channels in the middle
  std::string activation = "relu";                // squeeze_excitation
  std::string gate = "sigmoid";                   // squeeze_excitation
  int64_t norm_size = 5;                          // local_response_norm: channels
  double norm_alpha = 1e-4, norm_beta = 0.75;     // local_response_norm
  double norm_k = 1;                              // local_response_norm
  std::string name;                               // save, load
  // residual: y = layers(x) + shortcut(x); concat: y = [layers[0](x), layers[1](x), ...]
  std::vector<LayerConfig> layers;
  std::vector<LayerConfig> shortcut;  // residual; empty: the identity
  SourceRange range;                  // position of the kind's name, if parsed
};

// A duration of training: "1ep", "0.5ep" or "500st"; for a few keys also a time: "10min", "2h".
// Zero may be written without a unit.
struct Duration {
  enum class Unit { kSteps, kEpochs, kMinutes, kHours };
  double count = 0;  // an integer for steps
  Unit unit = Unit::kSteps;

  bool is_time() const { return unit == Unit::kMinutes || unit == Unit::kHours; }
  // Requires is_time().
  double seconds() const { return count * (unit == Unit::kHours ? 3600 : 60); }
  // Returns the number of steps, rounded to the nearest; at least 1 if count > 0. Requires
  // !is_time().
  int64_t steps(int64_t steps_per_epoch) const;
  std::string text() const;  // "500st"
  bool operator==(const Duration&) const = default;
};

// A size of memory: "2GiB", "512MiB", "64KiB" or "100B".
struct ByteSize {
  int64_t bytes = 0;

  // Returns the size "auto": the free memory. Only keys with KeyRule::automatic allow it.
  static ByteSize automatic() { return {-1}; }
  bool is_automatic() const { return bytes < 0; }
  std::string text() const;  // in the largest unit with an integer count, or "auto"
  bool operator==(const ByteSize&) const = default;
};

// The number of loader threads: a number, or "auto": one per core, at most 16.
class Workers {
 public:
  Workers(int count) : count_(count) {}
  static Workers automatic();

  operator int() const { return count_; }
  std::string text() const;

 private:
  int count_;
  bool automatic_ = false;
};

// The names of the values of E, in order. The values count from 0.
template <class E>
inline constexpr auto kEnumNames = nullptr;

// Returns the names for kEnumNames<E>: one for each value up to kLast.
template <auto kLast, class... Texts>
constexpr auto enum_names(Texts... texts) {
  static_assert(sizeof...(Texts) == static_cast<size_t>(kLast) + 1, "a name for each value");
  return std::array<const char*, sizeof...(Texts)>{texts...};
}

template <class E>
requires requires { kEnumNames<E>.size(); }
constexpr const char* name_of(E value) { return kEnumNames<E>.at(static_cast<size_t>(value)); }

template <class E>
const std::vector<std::string>& names_of() {
  static const std::vector<std::string> all(kEnumNames<E>.begin(), kEnumNames<E>.end());
  return all;
}

// A value of any enumeration, for code that uses only names.
class NamedEnumValue {
 public:
  const std::string& text() const { return names_->at(static_cast<size_t>(index_)); }
  // Does nothing for an unknown name.
  void set(const std::string& name) {
    for (size_t i = 0; i < names_->size(); ++i)
      if ((*names_)[i] == name) index_ = static_cast<int>(i);
  }

 protected:
  NamedEnumValue(int index, const std::vector<std::string>& names)
      : index_(index), names_(&names) {}
  int index_;

 private:
  const std::vector<std::string>* names_;
};

// An enumeration value that a configuration gives by name. The name is checked when it is read.
// Later code switches over the enumeration, so that compilers report a missing case.
//
//   enum class Mode { kGraph, kEager };
//   template <>
//   inline constexpr auto kEnumNames<Mode> = enum_names<Mode::kEager>("graph", "eager");
//   NamedEnum<Mode> mode = Mode::kGraph;
template <class E>
class NamedEnum : public NamedEnumValue {
 public:
  NamedEnum(E value) : NamedEnumValue(static_cast<int>(value), names_of<E>()) {}
  operator E() const { return static_cast<E>(index_); }
  friend bool operator==(const NamedEnum& a, const NamedEnum& b) { return a.index_ == b.index_; }
  friend bool operator==(const NamedEnum& a, E b) { return E(a) == b; }
};

// Enumerations whose values are given by name.
enum class Mode { kGraph, kEager };
enum class Precision { float32, bf16, f16 };
enum class LossKind { kCrossEntropy, kBce, kMse };
enum class ScheduleKind {
  kConstant,
  kStep,
  kMultistep,
  kCosine,
  kLinear,
  kOneCycle,
  kPolynomial,
  kExponential,
  kCosineRestarts,
  kWsd,
  kPlateau
};
enum class OnNonFinite { kStop, kSkip };
enum class LossScaling { dynamic, constant, off };
enum class Sampling { kShuffled, kBalanced };
enum class BestBy { kAccuracy, kLoss, kNone };

// clang-format off
template <> inline constexpr auto kEnumNames<Mode> = enum_names<Mode::kEager>("graph", "eager");
template <> inline constexpr auto kEnumNames<Precision> =
    enum_names<Precision::f16>("float32", "bf16", "f16");
template <> inline constexpr auto kEnumNames<LossKind> =
    enum_names<LossKind::kMse>("cross_entropy", "bce", "mse");
template <> inline constexpr auto kEnumNames<ScheduleKind> = enum_names<ScheduleKind::kPlateau>(
    "constant", "step", "multistep", "cosine", "linear", "one_cycle", "polynomial", "exponential",
    "cosine_restarts", "wsd", "plateau");
template <> inline constexpr auto kEnumNames<OnNonFinite> =
    enum_names<OnNonFinite::kSkip>("stop", "skip");
template <> inline constexpr auto kEnumNames<LossScaling> =
    enum_names<LossScaling::off>("dynamic", "constant", "off");
template <> inline constexpr auto kEnumNames<Sampling> =
    enum_names<Sampling::kBalanced>("shuffled", "balanced");
template <> inline constexpr auto kEnumNames<BestBy> =
    enum_names<BestBy::kNone>("accuracy", "loss", "none");
template <> inline constexpr auto kEnumNames<CpuKernels> =
    enum_names<CpuKernels::eigen>("auto", "native", "eigen");
template <> inline constexpr auto kEnumNames<Winograd> = enum_names<Winograd::off>("auto", "off");
template <> inline constexpr auto kEnumNames<GpuPlans> =
    enum_names<GpuPlans::autotuned>("heuristic", "autotuned");
template <> inline constexpr auto kEnumNames<Damaged> = enum_names<Damaged::kSkip>("error", "skip");
template <> inline constexpr auto kEnumNames<Channels> =
    enum_names<Channels::kAuto>("1", "3", "auto");
template <> inline constexpr auto kEnumNames<CropBorder> =
    enum_names<CropBorder::kReflect>("zero", "reflect");
template <> inline constexpr auto kEnumNames<EraseMode> =
    enum_names<EraseMode::kPixel>("const", "rand", "pixel");
// clang-format on

// One entry of data.augment: {crop: {padding: 4, border: reflect}} or {flip: horizontal}. The kinds
// and their options are described in config.cc.
struct AugmentConfig {
  std::string kind = "crop";
  int padding = 0;  // pixels on each side
  NamedEnum<CropBorder> border = CropBorder::kZero;
  std::string flip = "horizontal";
  int size = 0;                                                       // pixels a side
  std::vector<double> scale = {0.08, 1}, ratio = {3.0 / 4, 4.0 / 3};  // [low, high]
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  int level = 128;
  int n = 2, magnitude = 9;
  double degrees = 0;
  // random_erasing
  NamedEnum<EraseMode> mode = EraseMode::kConst;
  std::vector<double> erased = {0.02, 0.33}, form = {0.3, 3.3};  // [low, high]
  double erase_probability = 0.5;
  int erase_level = 0;
  double alpha = 1, probability = 1;
};

struct ModelConfig {
  std::string name = "resnet20";
  int64_t classes = 0;  // 0: those of the data, which Run counts (models/training/run.h)
  // Options of some models; the model's default if not given (models/zoo/zoo.h).
  std::optional<double> dropout;
  std::vector<int64_t> widths;
  std::optional<int64_t> depth, widen, growth;
  std::optional<double> stochastic_depth;
  std::string weights;              // file of pretrained weights; "": none
  std::vector<LayerConfig> layers;  // replaces a model by name; name is then "layers"
};

struct DataConfig {
  std::string name = "synthetic";
  std::string root;             // folder of the files; hdf5: the file
  int64_t batch = 128;          // images per step
  Workers workers = 2;          // loader threads; 0: load in the training thread
  int prefetch = 4;             // maximum number of prefetched batches
  int image_size = 0;           // pixels a side
  int resize = 0;               // pixels of the short side before the crop; 0: image_size
  std::string labels = "fine";  // cifar100: fine | coarse; hdf5: path of the labels
  std::string images;           // from here to cache: models/data/sets/hdf5_set.h
  std::string layout = "hwc";
  std::vector<double> range;
  std::string class_names;
  double test_fraction = 0.1;
  ByteSize cache{int64_t{256} << 20};
  NamedEnum<Damaged> damaged = Damaged::kError;
  NamedEnum<Channels> channels = Channels::kColour;
  bool follow_links = false;
  int64_t train_count = 0;  // training images to use; 0: all
  int64_t test_count = 0;   // test images to use; 0: all
  NamedEnum<Sampling> sampling = Sampling::kShuffled;
  ValidationSource validation;  // a part of the training images, or a folder
  std::vector<AugmentConfig> augment;
  std::vector<double> mean, std;  // per channel, in units of x / 255; empty: the data set's own
};

// The formulas are in models/training/session.h.
struct LossConfig {
  NamedEnum<LossKind> name = LossKind::kCrossEntropy;
  double label_smoothing = 0;
  std::vector<double> class_weights = {};  // one per class; empty: 1
  std::optional<double> target_threshold = {};
};

// One entry of optimizer.groups: {vectors: {weight_decay: 0}} or {named: {part: fc, lr: 10}}.
struct GroupConfig {
  std::string kind = "vectors";     // vectors (parameters of rank <= 1) | named
  std::string part = {};            // named: a part of the network
  double lr = 1, weight_decay = 1;  // factors
};

struct OptimizerConfig {
  std::string name = "sgd";  // one of optimizers.cc
  double lr = 0.1;           // base of the schedule; parse_config() defaults to usual_lr()
  std::optional<double> clip_norm, clip_value;  // limits of the gradients
  double layer_decay = 1;                       // layer i of n: lr * layer_decay^(n - 1 - i)
  std::vector<GroupConfig> groups;
  // The first three apply to all optimizers, the others to those that list them in optimizers.cc.
  double weight_decay = 0, vector_lr = 1;
  bool decay_vectors = true;
  double momentum = 0.9, beta1 = 0.9, beta2 = 0.999, alpha = 0.99, eps = 1e-8,
         trust_coefficient = 0.001;
  bool nesterov = false, eps_in_root = false, match_adamw = false;
  int ns_steps = 5;
};

// The formulas are in models/config/schedule.h.
struct ScheduleConfig {
  NamedEnum<ScheduleKind> name = ScheduleKind::kConstant;
  Duration warmup;                              // linear from 0 to lr
  Duration every{30, Duration::Unit::kEpochs};  // PyTorch: step_size
  std::vector<Duration> milestones;             // increasing
  double gamma = 0.1;
  double final_lr = 0;                        // PyTorch: eta_min
  double start_factor = 0.04, peak_at = 0.3;  // fractions of lr and of the training (pct_start)
  double power = 1;
  Duration period{10, Duration::Unit::kEpochs};  // PyTorch: T_0
  int period_factor = 1;                         // PyTorch: T_mult
  Duration decay{1, Duration::Unit::kEpochs};
  int patience = 10, cooldown = 0;  // evaluations
  double threshold = 1e-4;
};

struct TrainConfig {
  double epochs = 10;                                          // a fraction is allowed
  std::optional<int64_t> steps;                                // replaces epochs if given
  Duration evaluate_every{1, Duration::Unit::kEpochs};         // 0: only at the end
  NamedEnum<OnNonFinite> non_finite = OnNonFinite::kStop;      // NaN or infinite loss or gradients
  NamedEnum<LossScaling> loss_scaling = LossScaling::dynamic;  // layers/optimizers/loss_scale.h
  double loss_scale = 65536;                                   // constant, or the first
  int loss_scale_interval = 2000;                              // steps
  Duration log_every{50, Duration::Unit::kSteps};              // 0: only at the end of an epoch
  int accumulate = 1;                               // gradient accumulation: parts of a batch
  int patience = 0;                                 // evaluations without a new best; 0: off
  std::vector<std::string> freeze, freeze_all_but;  // parts of the network

  int64_t total_steps(int64_t steps_per_epoch) const;
};

// The average of the weights over the steps (layers/optimizers/ema.h). Evaluations and
// weights.safetensors use the averaged weights.
struct EmaConfig {
  std::optional<double> decay;  // none: no average is kept
  bool warmup = false;
};

struct EvalConfig {
  int64_t batch = 0;  // images; 0: data.batch / train.accumulate, rounded up
  // Test-time augmentation: logits are averaged over several views of an image.
  bool flip = false;  // adds the mirror image
  int64_t shift = 0;  // pixels; adds each view moved up and left, and moved down and right
};

struct CpuConfig {
  NamedEnum<CpuKernels> kernels = CpuKernels::automatic;  // auto | native | eigen
  NamedEnum<Winograd> winograd = Winograd::automatic;     // auto | off
};

struct GpuConfig {
  bool tf32 = true;                                 // matmul and conv2d with ten bits of mantissa
  ByteSize workspace{int64_t{1} << 30};             // limit of one op's scratch
  bool cuda_graph = true;                           // launch a step as one CUDA graph
  bool synchronous = false;                         // wait after each op (CUDA_LAUNCH_BLOCKING=1)
  NamedEnum<GpuPlans> plans = GpuPlans::heuristic;  // heuristic | autotuned
};

// Memory limits of the logical devices into which cpu:0 and gpu:0 are split; empty: not split.
struct DevicesConfig {
  std::vector<ByteSize> cpu, gpu;
  bool operator==(const DevicesConfig&) const = default;
};

struct MemoryConfig {
  std::string planner = "best";
  std::optional<ByteSize> limit;      // host memory that the engine allocates
  std::optional<ByteSize> gpu_limit;  // GPU memory that the engine allocates
  // A limit refuses, a budget recomputes: activations are recomputed (activation checkpointing)
  // until the memory that limit, or on a GPU gpu_limit, counts fits into the budget
  // (models/training/memory_need.h).
  std::optional<ByteSize> budget;
  std::string recompute = "best";       // strategy (memory/recompute/recompute.h)
  std::string cost_model = "roofline";  // costs of nodes (models/run/profile_costs.h)
  std::string allocator = "caching";    // memory/allocator.h
  std::optional<ByteSize> reserve;      // allocated before the first step
};

struct CheckpointConfig {
  Duration every{1, Duration::Unit::kEpochs};  // 0: only at the end; may be a time
  int keep = 2;                                // newest checkpoints to keep; 0: none are written
  // Also keeps the checkpoint that is best on the validation images or, without any, on the test
  // images.
  NamedEnum<BestBy> best = BestBy::kAccuracy;
  std::string use = "best";  // weights to export and test, with data.validation: best | last
};

struct ResumeConfig {
  bool exact = false;  // refuse to resume in an environment that may change the bits
};

struct DistributedConfig {
  int timeout = 60;  // seconds
};

struct RunConfig {
  std::string dir = "runs/run";
};

// The position at which each given key was given last.
using GivenKeys = std::map<std::string, SourceRange>;

struct Config {
  uint64_t seed = 1;
  std::string device = "cpu";
  NamedEnum<Mode> mode = Mode::kGraph;
  NamedEnum<Precision> precision = Precision::float32;  // activations in memory
  bool deterministic = true;
  int threads = 0;  // 0: all cores
  ModelConfig model;
  DataConfig data;
  LossConfig loss;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  EmaConfig ema;
  EvalConfig eval;
  CpuConfig cpu;
  GpuConfig gpu;
  DevicesConfig devices;
  MemoryConfig memory;
  CheckpointConfig checkpoint;
  ResumeConfig resume;
  DistributedConfig distributed;
  RunConfig run;
  // Keys of the file that an override made meaningless: "optimizer.nesterov: true (a.yaml:3)".
  std::vector<std::string> ignored_keys;
  // For errors that only a run finds (placed_text(), diagnostics.h); nullptr unless parsed.
  std::shared_ptr<const GivenKeys> given;
};

// Returns how the loss is scaled: not at all, unless activations are float16.
inline LossScaling loss_scaling(const Config& config) {
  return config.precision == Precision::f16 ? LossScaling{config.train.loss_scaling}
                                            : LossScaling::off;
}

// Loads a configuration file and applies the overrides. An override is "group.key=value", the value
// in YAML, or "~group.key", which resets a key or a whole group to the default. The file may give
// train.epochs or train.steps, not both; an override of one resets the other. Throws ConfigErrors,
// and ConfigError if the file cannot be read.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});
// Loads the resolved configuration of a run folder. An earlier version may have written it: keys
// and values are read by their earlier names too, and settings without effect are reset.
Config load_resolved_config(const std::string& path,
                            const std::vector<std::string>& overrides = {});
// Parses a configuration; `name` is the name of the text in errors.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

// Returns YAML of every key that has an effect; parsing the YAML gives a configuration that trains
// identically. If with_origins, each line ends in a comment with the origin of its value:
// "resnet.yaml:10", "command line" or "default".
std::string print_config(const Config& config, bool with_origins = false);
// Returns the value of each key in a text of print_config(), which may come from another version or
// from an attacker.
std::map<std::string, std::string> config_values(std::string_view text);

// Documentation of the keys for people and editors. Returns the JSON Schema (draft 2020-12),
// without the rules between several keys; and the reference page, docs/config.md.
std::string config_schema();
std::string config_reference();
// Returns a configuration for this model, with the default of every key and a comment. Enlarges the
// images if the model needs larger ones. Throws ConfigError for an unknown model.
std::string config_template(const std::string& model);

}  // namespace tessera
