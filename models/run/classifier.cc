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

std::vector<std::string> names_in(const std::string& inference, int64_t classes) {
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

struct Classifier::Impl {
  ImageShape image;
  int resize = 0;  // data.resize
  int64_t classes = 0, batch = 1;
  Normalization normalization;
  std::vector<std::string> names;
  std::string weights, precision;
  std::shared_ptr<const CompiledGraph> compiled;
  std::mutex mutex;  // guards free and bytes
  std::vector<std::unique_ptr<Program>> free;
  Bytes bytes;

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

  void run(Program& program, const uint8_t* images, int64_t count, float* logits) const {
    const auto whole = static_cast<size_t>(image.bytes()), n = static_cast<size_t>(count);
    char* in = program.input(0).impl()->data();
    std::memcpy(in, images, n * whole);
    std::memset(in + n * whole, 0, (static_cast<size_t>(batch) - n) * whole);
    program.run();
    std::memcpy(logits, program.output(0).impl()->data(),
                n * static_cast<size_t>(classes) * sizeof(float));
  }
};

Classifier::Classifier(const TrainedNetwork& trained, int64_t batch, int threads)
    : impl_(std::make_unique<Impl>()) {
  if (batch < 1) throw Error(fmt::format("load: batch must be at least 1, but is {}", batch));
  impl_->image = trained.image;
  impl_->resize = trained.config.data.resize;
  impl_->classes = trained.config.model.classes;
  impl_->batch = batch;
  impl_->weights = trained.weights;
  impl_->precision = trained.config.precision.text();
  impl_->names = names_in(trained.inference, impl_->classes);
  if (const auto told = normalization_in(trained.inference))
    impl_->normalization = *told;
  else
    throw CheckpointError(
        fmt::format("weights '{}': have no normalization (docs/inference.md); train with this "
                    "program, or with --resume, to add it",
                    trained.weights));
  const Config& config = trained.config;
  Settings wanted = settings_of(config);
  if (threads > 0) wanted.threads = threads;
  const SettingsScope settings(wanted);
  const DeviceScope device("cpu:0");
  const TrainingScope training(false);
  const NoGradScope no_grad;
  const ImageShape& image = trained.image;
  Graph graph = capture(
      [&](const Tensors& x) {
        return Tensors{
            evaluated_logits(trained.config, *trained.network, impl_->normalization, x[0])};
      },
      {{DType::u8, {batch, image.height, image.width, image.channels}, {}}});
  impl_->compiled = std::make_shared<const CompiledGraph>(std::move(graph), fresh_options());
  const CompiledGraph& compiled = *impl_->compiled;
  impl_->bytes = {constant_bytes(compiled.graph), compiled.slot_bytes(), compiled.arena_bytes()};
  impl_->give(impl_->make());
}

Classifier::Classifier(Classifier&&) noexcept = default;
Classifier& Classifier::operator=(Classifier&&) noexcept = default;
Classifier::~Classifier() = default;

std::vector<float> Classifier::operator()(std::span<const uint8_t> images) const {
  const auto whole = static_cast<size_t>(impl_->image.bytes());
  if (images.size() % whole != 0)
    throw ShapeError(
        fmt::format("classifier: {} bytes are not a whole number of images of {} x {} x {}",
                    images.size(), impl_->image.height, impl_->image.width, impl_->image.channels));
  const auto count = static_cast<int64_t>(images.size() / whole);
  std::vector<float> logits(static_cast<size_t>(count * impl_->classes));
  std::unique_ptr<Program> program = impl_->take();
  for (int64_t first = 0; first < count; first += impl_->batch)
    impl_->run(*program, images.data() + static_cast<size_t>(first) * whole,
               std::min(impl_->batch, count - first), logits.data() + first * impl_->classes);
  impl_->give(std::move(program));
  return logits;
}

std::vector<uint8_t> Classifier::read(const std::string& path) const {
  std::vector<uint8_t> pixels(static_cast<size_t>(impl_->image.bytes()));
  PictureReader().read_middle(path, impl_->image, impl_->resize, pixels.data());
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

const ImageShape& Classifier::image() const { return impl_->image; }
int64_t Classifier::classes() const { return impl_->classes; }
int64_t Classifier::batch() const { return impl_->batch; }
const std::vector<std::string>& Classifier::class_names() const { return impl_->names; }
const Normalization& Classifier::normalization() const { return impl_->normalization; }
const std::string& Classifier::weights() const { return impl_->weights; }
const std::string& Classifier::precision() const { return impl_->precision; }
Classifier::Bytes Classifier::bytes() const { return impl_->bytes; }

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
