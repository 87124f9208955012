#include "tessera/models/run/classifier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/graph/arena.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/network.h"
#include "tessera/models/data/images/picture_reader.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

std::vector<std::string> names_or_numbers(const std::string& inference, int64_t classes) {
  std::vector<std::string> names = class_names_in(inference);
  if (std::ssize(names) == classes) return names;
  names.clear();
  for (int64_t k = 0; k < classes; ++k) names.push_back(std::to_string(k));
  return names;
}

// Compares logits; a NaN is the largest, as for argmax().
bool is_less(float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

CompileOptions fresh_options() {
  CompileOptions options;
  options.constant_parameters = true;
  options.arenas = std::make_shared<Arenas>();
  return options;
}

size_t constant_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Value& value : graph.values)
    if (value.role == Role::constant) bytes += value.spec.bytes();
  return bytes;
}

}  // namespace

// The compiled network, and a program for each concurrent call so far.
struct Classifier::Programs {
  explicit Programs(Graph graph)
      : compiled(std::make_shared<const CompiledGraph>(std::move(graph), fresh_options())) {}

  const std::shared_ptr<const CompiledGraph> compiled;
  std::mutex mutex;  // guards free
  std::vector<std::unique_ptr<Program>> free;

  std::unique_ptr<Program> make() {
    auto program = std::make_unique<Program>(compiled, fresh_options());
    program->bind();
    return program;
  }
  std::unique_ptr<Program> take() {
    {
      const std::lock_guard lock(mutex);
      if (!free.empty()) {
        auto program = std::move(free.back());
        free.pop_back();
        return program;
      }
    }
    return make();
  }
  void give(std::unique_ptr<Program> program) {
    const std::lock_guard lock(mutex);
    free.push_back(std::move(program));
  }
};

Classifier::Classifier(const TrainedNetwork& trained, int64_t batch, int threads)
    : image_(trained.image),
      resize_(trained.config.data.resize),
      classes_(trained.config.model.classes),
      batch_(batch),
      names_(names_or_numbers(trained.inference, classes_)),
      weights_(trained.weights),
      precision_(trained.config.precision.text()) {
  if (batch < 1) throw Error(fmt::format("load: batch must be at least 1, but is {}", batch));
  const auto told = normalization_in(trained.inference);
  if (!told)
    throw CheckpointError(
        fmt::format("weights '{}': have no normalization (docs/inference.md); train with this "
                    "program, or with --resume, to add it",
                    trained.weights));
  normalization_ = *told;
  Settings wanted = settings_of(trained.config);
  if (threads > 0) wanted.threads = threads;
  const SettingsScope settings(wanted);
  const DeviceScope device("cpu:0");
  const TrainingScope training(false);
  const NoGradScope no_grad;
  programs_ = std::make_unique<Programs>(capture(
      [&](const Tensors& x) {
        return Tensors{evaluated_logits(trained.config, *trained.network, normalization_, x[0])};
      },
      {{DType::u8, {batch, image_.height, image_.width, image_.channels}, {}}}));
  const CompiledGraph& compiled = *programs_->compiled;
  bytes_ = {constant_bytes(compiled.graph), compiled.slot_bytes(), compiled.arena_bytes()};
  programs_->give(programs_->make());
}

Classifier::Classifier(Classifier&&) noexcept = default;
Classifier& Classifier::operator=(Classifier&&) noexcept = default;
Classifier::~Classifier() = default;

std::vector<float> Classifier::operator()(std::span<const uint8_t> images) const {
  const auto whole = static_cast<size_t>(image_.bytes()), most = static_cast<size_t>(batch_);
  if (images.size() % whole != 0)
    throw ShapeError(
        fmt::format("classifier: {} bytes are not a whole number of images of {} x {} x {}",
                    images.size(), image_.height, image_.width, image_.channels));
  const size_t count = images.size() / whole, classes = static_cast<size_t>(classes_);
  std::vector<float> logits(count * classes);
  std::unique_ptr<Program> program = programs_->take();
  for (size_t first = 0; first < count; first += most) {
    const size_t n = std::min(most, count - first);
    char* in = program->input(0).impl()->data();
    std::memcpy(in, images.data() + first * whole, n * whole);
    std::memset(in + n * whole, 0, (most - n) * whole);
    program->run();
    std::memcpy(logits.data() + first * classes, program->output(0).impl()->data(),
                n * classes * sizeof(float));
  }
  programs_->give(std::move(program));
  return logits;
}

std::vector<uint8_t> Classifier::read(const std::string& path) const {
  std::vector<uint8_t> pixels(static_cast<size_t>(image_.bytes()));
  PictureReader().read_middle(path, image_, resize_, pixels.data());
  return pixels;
}

void Classifier::classify(
    const std::vector<std::string>& files,
    const std::function<void(size_t, std::span<const float>, const std::string&)>& answer) const {
  const auto most = static_cast<size_t>(batch()), count = static_cast<size_t>(classes());
  for (size_t first = 0; first < files.size(); first += most) {
    const size_t last = std::min(files.size(), first + most);
    std::vector<std::string> faults(last - first);
    std::vector<uint8_t> pixels;
    for (size_t i = first; i < last; ++i) try {
        const std::vector<uint8_t> picture = read(files[i]);
        pixels.insert(pixels.end(), picture.begin(), picture.end());
      } catch (const DataError& error) {
        faults[i - first] = error.what();
      }
    const std::vector<float> logits = (*this)(pixels);
    std::span<const float> left = logits;
    for (size_t i = first; i < last; ++i) {
      const size_t of_file = faults[i - first].empty() ? count : 0;
      answer(i, left.first(of_file), faults[i - first]);
      left = left.subspan(of_file);
    }
  }
}

std::vector<float> Classifier::probabilities(std::span<const float> logits) {
  const double most = logits.empty() ? 0 : *std::ranges::max_element(logits);
  std::vector<double> shares;
  for (const float logit : logits) shares.push_back(std::exp(logit - most));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<float> result;
  for (const double share : shares) result.push_back(static_cast<float>(share / sum));
  return result;
}

std::vector<size_t> Classifier::ranking(std::span<const float> logits) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return is_less(logits[b], logits[a]); });
  return order;
}

size_t Classifier::best(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits, is_less) - logits.begin());
}

Classifier load(const std::string& run_dir, const LoadOptions& options) {
  std::error_code error;
  if (std::filesystem::is_regular_file(run_dir, error))
    return load(NetworkSource{.weights = run_dir}, options);
  return load(NetworkSource{.run = run_dir, .checkpoint = options.checkpoint}, options);
}

Classifier load(const NetworkSource& source, const LoadOptions& options) {
  const auto trained = trained_network(source);
  NamedEnumValue& precision = trained->config.precision;
  if (!options.precision.empty()) precision.set(options.precision);
  if (!options.precision.empty() && precision.text() != options.precision)
    throw ConfigError(fmt::format("load: precision '{}' is not one of {}", options.precision,
                                  fmt::join(names_of<Precision>(), ", ")));
  return Classifier(*trained, options.batch, options.threads);
}

}  // namespace tessera
