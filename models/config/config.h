// The configuration of a run: plain structs, and the YAML they are read from.
//
// Reading is strict: a key that does not exist, a key given twice, a value of the wrong type, unit
// or range are errors with file:line:column, and all of them are reported at once in one
// ConfigErrors (models/config/diagnostics.h). Every key has a default, so an empty file is a
// configuration too.
//
//   Config config = load_config("resnet.yaml", {"train.steps=50", "~data.augment"});
//
// The keys, their rules and their help are described once, in config_keys(). Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/models/config/layer_config.h"
#include "tessera/models/config/named.h"
#include "tessera/models/config/optimizer_config.h"
#include "tessera/models/data/augment/augment.h"
#include "tessera/models/data/dataset.h"
#include "tessera/runtime/context.h"

namespace tessera {

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

// What configurations choose by name.
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
const char* name_of(Mode value);
const char* name_of(LossKind value);
const char* name_of(ScheduleKind value);
const char* name_of(OnNonFinite value);
const char* name_of(Sampling value);
const char* name_of(BestBy value);
const char* name_of(CpuKernels value);
const char* name_of(Winograd value);
const char* name_of(GpuPlans value);
const char* name_of(Damaged value);
const char* name_of(Channels value);
const char* name_of(CropBorder value);

// One entry of data.augment: {crop: {padding: 4, border: reflect}} or {flip: horizontal}. The kinds
// and their options are described in config_items.cc.
struct AugmentConfig {
  std::string kind = "crop";
  int padding = 0;                               // crop: pixels on each side
  Named<CropBorder> border = CropBorder::kZero;  // crop: zero | reflect
  std::string flip = "horizontal";               // flip
  int size = 0;                                  // resize_crop, cutout: pixels a side
  std::vector<double> scale = {0.08, 1}, ratio = {3.0 / 4, 4.0 / 3};  // resize_crop
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;       // color_jitter
  int level = 128;                                                    // cutout
  int n = 2, magnitude = 9;                                           // rand_augment
  double alpha = 1;                                                   // mixup, cutmix
  double probability = 1;                                             // cutout, mixup, cutmix
  bool operator==(const AugmentConfig&) const = default;
};

struct ModelConfig {
  std::string name = "resnet20";
  int64_t classes = 10;
  // For the models that have them; the model's own where nothing is given.
  std::optional<double> dropout;           // probability
  std::vector<int64_t> widths;             // mlp, cnn_bn: of each layer
  std::optional<int64_t> depth;            // wide_resnet, densenet_bc
  std::optional<int64_t> widen;            // wide_resnet: factor of the channels
  std::optional<int64_t> growth;           // densenet_bc: channels that a layer adds
  std::optional<double> stochastic_depth;  // resnet, efficientnet, convnext
  std::string weights;                     // file with the values to begin with; "": as initialised
  std::vector<LayerConfig> layers;         // instead of a model by name, which is "layers" then
};

struct DataConfig {
  std::string name = "synthetic";
  std::string root;             // folder of the files; hdf5: the file
  int64_t batch = 128;          // images of a step
  Workers workers = 2;          // loader threads; 0: load in the training thread
  int read_ahead = 4;           // batches held ready at most
  int image_size = 0;           // image_folder (1 to 4096), synthetic (16 to 512; 0: 32): pixels
  std::string labels = "fine";  // cifar100: fine | coarse; hdf5: path of the labels
  // hdf5 (models/data/sets/hdf5_set.h says what they mean)
  std::string images;          // path of the images, such as /{split}/images; "": a packed file
  std::string layout = "hwc";  // hwc | chw | cwh
  std::vector<double> range;   // [low, high] of the values; empty: that of their type
  std::string class_names;     // path, or path@attribute
  double test_part = 0.1;      // without {split}: part of the images that is the test set
  ByteSize cache{int64_t{256} << 20};            // decoded images that are kept
  Named<Damaged> damaged = Damaged::kError;      // image_folder, pictures that do not decode
  Named<Channels> channels = Channels::kColour;  // image_folder: 1 | 3 | auto
  bool follow_links = false;                     // image_folder: out of its root
  int64_t train_count = 0;                       // use only so many training images; 0: all
  int64_t test_count = 0;                        // the same for the test images
  Named<Sampling> sampling = Sampling::kShuffled;
  ValidationSource validation;  // held out of the training images, or a folder
  std::vector<AugmentConfig> augment;
  std::vector<double> mean;  // per channel, in units of x / 255; empty: the data set's own
  std::vector<double> std;
};

// The formulas stand in models/training/losses.h.
struct LossConfig {
  Named<LossKind> name = LossKind::kCrossEntropy;
  double label_smoothing = 0;
  std::vector<double> class_weights = {};       // cross_entropy: one for each class; empty: 1
  std::optional<double> target_threshold = {};  // bce
};

// The formulas stand in models/config/schedule.h.
struct ScheduleConfig {
  Named<ScheduleKind> name = ScheduleKind::kConstant;
  Duration warmup;  // linear from 0 to lr; not for one_cycle, which rises itself
  Duration every{30, Duration::Unit::kEpochs};  // step, exponential: between factors of gamma
  std::vector<Duration> milestones;             // multistep: when lr is multiplied by gamma, rising
  double gamma = 0.1;                           // step, multistep, exponential, plateau
  double final_lr = 0;                          // the learning rate at the end; plateau: the least
  double start_factor = 0.04;  // one_cycle: the first learning rate, as a part of lr
  double peak_at = 0.3;        // one_cycle: where lr is reached, as a part of the training
  double power = 1;            // polynomial
  Duration period{10, Duration::Unit::kEpochs};  // cosine_restarts: of the first cycle
  int period_factor = 1;                         // cosine_restarts: of each after it
  Duration decay{1, Duration::Unit::kEpochs};    // wsd: the linear decay at the end
  int patience = 10, cooldown = 0;               // plateau: evaluations
  double threshold = 1e-4;                       // plateau: what is better by less is not
};

struct TrainConfig {
  double epochs = 10;                                   // how long; a fraction is allowed
  std::optional<int64_t> steps;                         // when given, how long instead of epochs
  Duration evaluate_every{1, Duration::Unit::kEpochs};  // 0: only at the end
  Named<OnNonFinite> non_finite = OnNonFinite::kStop;   // a batch with such a loss or gradients
  Duration log_every{50, Duration::Unit::kSteps};       // 0: only at the end of an epoch
  int accumulate = 1;                                   // parts of a batch, one after the other
  int patience = 0;                                     // evaluations without a new best; 0: any
  std::vector<std::string> freeze, freeze_all_but;      // parts of the network

  int64_t total_steps(int64_t steps_per_epoch) const;
};

// An average of the weights over the steps (layers/ema.h), which is what is evaluated and what
// weights.h5 holds.
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
  Named<CpuKernels> kernels = CpuKernels::automatic;  // auto | native | eigen
  Named<Winograd> winograd = Winograd::automatic;     // auto | off
};

struct GpuConfig {
  bool tf32 = false;                       // products and convolutions with ten bits of mantissa
  ByteSize workspace{int64_t{256} << 20};  // that one op may take for scratch
  bool cuda_graph = true;                  // a step is launched as a whole
  bool synchronous = false;                // wait after each op
  Named<GpuPlans> plans = GpuPlans::rule;  // rule | tuned
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
  std::string allocator = "caching";  // eager: where its tensors come from (memory/allocator.h)
  std::optional<ByteSize> reserve;    // eager: bytes taken before the first step
};

struct CheckpointConfig {
  Duration every{1, Duration::Unit::kEpochs};  // 0: only at the end; may be a time
  int keep = 2;  // how many of the newest stay; 0: none are written at all
  Named<BestBy> best = BestBy::kAccuracy;  // keep the best too: on the validation images, where
                                           // there are none on those of the test
  std::string use = "best";  // with data.validation, weights.h5 and the test are of: best | last
};

struct ResumeConfig {
  bool exact = false;  // refuse where the bits may be others than those of the machine before
};

struct RunConfig {
  std::string dir = "runs/run";
};

struct SourceRange;  // diagnostics.h
// Where each key that was given was given last.
using GivenKeys = std::map<std::string, SourceRange>;

struct Config {
  uint64_t seed = 1;
  std::string device = "cpu";
  Named<Mode> mode = Mode::kGraph;
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
