// The configuration of a run: plain structs, and the YAML they are read from.
//
// Reading is strict: a key that does not exist, a key given twice, a value of the wrong type, unit
// or range are errors with file:line:column, and all of them are reported at once in one
// ConfigErrors (models/config/diagnostics.h). Every key has a default, so an empty file is a
// configuration too.
//
//   Config config = load_config("resnet.yaml", {"train.steps=50", "~data.augment"});
//
// The keys, their rules, beside which choices they are read, and their help are described once, in
// config_keys(). Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/models/config/diagnostics.h"
#include "tessera/models/config/named.h"
#include "tessera/models/data/augment/augment.h"
#include "tessera/models/data/dataset.h"
#include "tessera/runtime/context.h"

namespace tessera {

// A model as a list of layers, the way configurations give it:
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
// The shapes follow from the images: x [n, height, width, channels] goes through the layers in
// order, and the last must make [n, classes]. The kinds and their options stand in
// layer_network.cc. Parts are named by kind and place in their list: "conv0", "residual3.conv0".
struct LayerConfig {
  std::string kind = "relu";
  int64_t filters = 0, kernel = 0;                // conv; pixels a side
  int64_t stride = 1, padding = 0, dilation = 1;  // conv; pixels
  int64_t groups = 1;                             // conv, group_norm
  bool bias = true;                               // conv, linear
  bool identity = false;                          // conv: filters start as the identity
  int64_t size = 0;                               // pools: pixels a side
  std::optional<int64_t> pool_stride;             // pools: the size when not given
  int64_t units = 0;                              // linear
  double probability = 0.5;                       // dropout
  double eps = 1e-5;                              // norms
  double momentum = 0.1;                          // batch_norm
  bool scale = true;                              // batch_norm
  double factor = 1;                              // scale
  bool round_up = false;                          // pools: the number of windows
  double slope = 0.01;                            // leaky_relu
  double first_slope = 0.25;                      // prelu
  double alpha = 1;                               // elu
  double start = 1e-6;                            // layer_scale
  int64_t squeeze = 0;                            // squeeze_excitation: channels in the middle
  std::string activation = "relu";                // squeeze_excitation
  std::string gate = "sigmoid";                   // squeeze_excitation
  int64_t norm_size = 5;                          // local_response_norm: channels
  double norm_alpha = 1e-4, norm_beta = 0.75;     // local_response_norm
  double norm_k = 1;                              // local_response_norm
  std::vector<LayerConfig> layers;                // residual: y = layers(x) + shortcut(x)
  std::vector<LayerConfig> shortcut;              // residual: empty: x itself
  SourceRange range;                              // of its name, when it was read
};

// A length of training: "1ep", "0.5ep" or "500st"; for a few keys also one of time: "10min", "2h".
// Zero may be written without a unit.
struct Duration {
  enum class Unit { kSteps, kEpochs, kMinutes, kHours };
  double count = 0;  // whole when in steps
  Unit unit = Unit::kSteps;

  bool is_time() const { return unit == Unit::kMinutes || unit == Unit::kHours; }
  double seconds() const { return count * (unit == Unit::kHours ? 3600 : 60); }  // of a time
  // In steps, rounded to the nearest, but at least one of what is above 0; not for a time.
  int64_t steps(int64_t steps_per_epoch) const;
  std::string text() const;  // "500st"
  bool operator==(const Duration&) const = default;
};

// A size of memory: "2GiB", "512MiB", "64KiB" or "100B".
struct ByteSize {
  int64_t bytes = 0;

  // Where a key allows it: as many as there are.
  static ByteSize automatic() { return {-1}; }
  bool is_automatic() const { return bytes < 0; }
  std::string text() const;  // in the largest unit that leaves it whole, or "auto"
  bool operator==(const ByteSize&) const = default;
};

// How many threads load data: a number, or "auto": one for each core, within bounds.
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

// Enumerations whose values configurations choose by name.
enum class Mode { kGraph, kEager };
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
enum class Sampling { kShuffled, kBalanced };
enum class BestBy { kAccuracy, kLoss, kNone };

// clang-format off
template <> inline constexpr auto kEnumNames<Mode> = enum_names<Mode::kEager>("graph", "eager");
template <> inline constexpr auto kEnumNames<LossKind> =
    enum_names<LossKind::kMse>("cross_entropy", "bce", "mse");
template <> inline constexpr auto kEnumNames<ScheduleKind> = enum_names<ScheduleKind::kPlateau>(
    "constant", "step", "multistep", "cosine", "linear", "one_cycle", "polynomial", "exponential",
    "cosine_restarts", "wsd", "plateau");
template <> inline constexpr auto kEnumNames<OnNonFinite> =
    enum_names<OnNonFinite::kSkip>("stop", "skip");
template <> inline constexpr auto kEnumNames<Sampling> =
    enum_names<Sampling::kBalanced>("shuffled", "balanced");
template <> inline constexpr auto kEnumNames<BestBy> =
    enum_names<BestBy::kNone>("accuracy", "loss", "none");
template <> inline constexpr auto kEnumNames<CpuKernels> =
    enum_names<CpuKernels::eigen>("auto", "native", "eigen");
template <> inline constexpr auto kEnumNames<Winograd> = enum_names<Winograd::off>("auto", "off");
template <> inline constexpr auto kEnumNames<GpuPlans> =
    enum_names<GpuPlans::tuned>("rule", "tuned");
template <> inline constexpr auto kEnumNames<Damaged> = enum_names<Damaged::kSkip>("error", "skip");
template <> inline constexpr auto kEnumNames<Channels> =
    enum_names<Channels::kAuto>("1", "3", "auto");
template <> inline constexpr auto kEnumNames<CropBorder> =
    enum_names<CropBorder::kReflect>("zero", "reflect");
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
  double alpha = 1, probability = 1;
  bool operator==(const AugmentConfig&) const = default;
};

struct ModelConfig {
  std::string name = "resnet20";
  int64_t classes = 10;
  // Options of some models; the model's own where nothing is given (models/zoo/zoo.h).
  std::optional<double> dropout;
  std::vector<int64_t> widths;
  std::optional<int64_t> depth, widen, growth;
  std::optional<double> stochastic_depth;
  std::string weights;              // file with the values to begin with; "": as initialised
  std::vector<LayerConfig> layers;  // instead of a model by name, which is "layers" then
};

struct DataConfig {
  std::string name = "synthetic";
  std::string root;             // folder of the files; hdf5: the file
  int64_t batch = 128;          // images of a step
  Workers workers = 2;          // loader threads; 0: load in the training thread
  int read_ahead = 4;           // batches held ready at most
  int image_size = 0;           // pixels a side
  std::string labels = "fine";  // cifar100: fine | coarse; hdf5: path of the labels
  std::string images;           // models/data/sets/hdf5_set.h says what these mean
  std::string layout = "hwc";
  std::vector<double> range;
  std::string class_names;
  double test_part = 0.1;
  ByteSize cache{int64_t{256} << 20};
  NamedEnum<Damaged> damaged = Damaged::kError;
  NamedEnum<Channels> channels = Channels::kColour;
  bool follow_links = false;
  int64_t train_count = 0;  // use only so many training images; 0: all
  int64_t test_count = 0;   // the same for the test images
  NamedEnum<Sampling> sampling = Sampling::kShuffled;
  ValidationSource validation;  // held out of the training images, or a folder
  std::vector<AugmentConfig> augment;
  std::vector<double> mean, std;  // per channel, in units of x / 255; empty: the data set's own
};

// The formulas stand in models/training/session.h.
struct LossConfig {
  NamedEnum<LossKind> name = LossKind::kCrossEntropy;
  double label_smoothing = 0;
  std::vector<double> class_weights = {};  // one for each class; empty: 1
  std::optional<double> target_threshold = {};
};

// One entry of optimizer.groups: {vectors: {weight_decay: 0}} or {named: {part: fc, lr: 10}}.
struct GroupConfig {
  std::string kind = "vectors";
  std::string part = {};            // of the network
  double lr = 1, weight_decay = 1;  // factors
  bool operator==(const GroupConfig&) const = default;
};

struct OptimizerConfig {
  std::string name = "sgd";  // one of optimizers.cc
  double lr = 0.1;           // that the schedule scales; parse_config() takes usual_lr()
  std::optional<double> clip_norm, clip_value;  // of gradients
  double layer_decay = 1;                       // factor of lr from a layer to the one before
  std::vector<GroupConfig> groups;
  // Options of all optimizers, and of those that name them in optimizers.cc.
  double weight_decay = 0, vector_lr = 1;
  bool decay_vectors = true;
  double momentum = 0.9, beta1 = 0.9, beta2 = 0.999, alpha = 0.99, eps = 1e-8, trust = 0.001;
  bool nesterov = false, eps_in_root = false, match_adamw = false;
  int ns_steps = 5;
};

// The formulas stand in models/config/schedule.h.
struct ScheduleConfig {
  NamedEnum<ScheduleKind> name = ScheduleKind::kConstant;
  Duration warmup;  // linear from 0 to lr
  Duration every{30, Duration::Unit::kEpochs};
  std::vector<Duration> milestones;  // rising
  double gamma = 0.1;
  double final_lr = 0;
  double start_factor = 0.04, peak_at = 0.3;  // parts of lr and of the training
  double power = 1;
  Duration period{10, Duration::Unit::kEpochs};
  int period_factor = 1;
  Duration decay{1, Duration::Unit::kEpochs};
  int patience = 10, cooldown = 0;  // evaluations
  double threshold = 1e-4;
};

struct TrainConfig {
  double epochs = 10;                                      // how long; a fraction is allowed
  std::optional<int64_t> steps;                            // when given, how long instead of epochs
  Duration evaluate_every{1, Duration::Unit::kEpochs};     // 0: only at the end
  NamedEnum<OnNonFinite> non_finite = OnNonFinite::kStop;  // a batch with such a loss or gradients
  Duration log_every{50, Duration::Unit::kSteps};          // 0: only at the end of an epoch
  int accumulate = 1;                                      // parts of a batch, one after the other
  int patience = 0;                                        // evaluations without a new best; 0: any
  std::vector<std::string> freeze, freeze_all_but;         // parts of the network

  int64_t total_steps(int64_t steps_per_epoch) const;
};

// An average of the weights over the steps (layers/optimizers/ema.h), which is what is evaluated
// and what weights.safetensors holds.
struct EmaConfig {
  std::optional<double> decay;  // none: no average is kept
  bool warmup = false;
};

struct EvalConfig {
  int64_t batch = 0;  // images; 0: data.batch, of an accumulated one the largest part
  // Logits are the means of those of several views of an image.
  bool flip = false;  // it and its mirror
  int64_t shift = 0;  // pixels; it, and moved by them up and left, and down and right
};

struct CpuConfig {
  NamedEnum<CpuKernels> kernels = CpuKernels::automatic;  // auto | native | eigen
  NamedEnum<Winograd> winograd = Winograd::automatic;     // auto | off
};

struct GpuConfig {
  bool tf32 = false;                       // products and convolutions with ten bits of mantissa
  ByteSize workspace{int64_t{256} << 20};  // that one op may take for scratch
  bool cuda_graph = true;                  // a step is launched as a whole
  bool synchronous = false;                // wait after each op
  NamedEnum<GpuPlans> plans = GpuPlans::rule;  // rule | tuned
};

// Limits of the logical devices that cpu:0 and gpu:0 are cut into; empty: it stays whole.
struct DevicesConfig {
  std::vector<ByteSize> cpu, gpu;
  bool operator==(const DevicesConfig&) const = default;
};

struct MemoryConfig {
  std::string planner = "best";
  std::optional<ByteSize> limit;      // of all that the engine asks for, of the host's memory
  std::optional<ByteSize> gpu_limit;  // the same of the GPU's
  // What limit counts, or on a GPU gpu_limit, is brought under this: what does not fit is computed
  // again instead of kept (models/training/memory_budget.h).
  std::optional<ByteSize> budget;
  std::string recompute = "best";     // what is (memory/recompute/recompute.h)
  std::string costs = "counted";      // by what times (models/training/profile_costs.h)
  std::string allocator = "caching";  // memory/allocator.h
  std::optional<ByteSize> reserve;    // bytes taken before the first step
};

struct CheckpointConfig {
  Duration every{1, Duration::Unit::kEpochs};  // 0: only at the end; may be a time
  int keep = 2;  // how many of the newest stay; 0: none are written at all
  NamedEnum<BestBy> best = BestBy::kAccuracy;  // keep the best too: on the validation images, where
                                               // there are none on those of the test
  std::string use =
      "best";  // with data.validation, weights.safetensors and the test are of: best | last
};

struct ResumeConfig {
  bool exact = false;  // refuse where the bits may be others than those of the machine before
};

struct RunConfig {
  std::string dir = "runs/run";
};

// Where each key that was given was given last.
using GivenKeys = std::map<std::string, SourceRange>;

struct Config {
  uint64_t seed = 1;
  std::string device = "cpu";
  NamedEnum<Mode> mode = Mode::kGraph;
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
  RunConfig run;
  // What an override made meaningless of what the file says: "optimizer.nesterov: true (a.yaml:3)".
  std::vector<std::string> put_aside;
  // Of a configuration that was read, for errors that only a run finds (placed(), diagnostics.h).
  std::shared_ptr<const GivenKeys> given;
};

// Where each key that was given was given last: "resnet.yaml:10", or "command line".
using ConfigOrigins = std::map<std::string, std::string>;

// An override is "group.key=value", the value in YAML, or "~group.key", which puts a key or a whole
// group back to the default. Of train.epochs and train.steps one may be given in the file; an
// override of one puts the other aside. Throws ConfigErrors, and ConfigError when the file cannot
// be read.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {},
                   ConfigOrigins* origins = nullptr);
// Loads the resolved configuration of a run folder, which an earlier program may have written:
// settings without effect are put aside.
Config load_resolved_config(const std::string& path,
                            const std::vector<std::string>& overrides = {});
// name: what errors call the text.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides = {},
                    ConfigOrigins* origins = nullptr);

// YAML of every key that means something; parse_config() of it gives a configuration that trains
// the same. With origins, each line
// ends in a comment that says where its value comes from.
std::string print_config(const Config& config, const ConfigOrigins* origins = nullptr);

}  // namespace tessera
