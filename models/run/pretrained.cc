#include "tessera/models/run/pretrained.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/engine/scope.h"
#include "tessera/layers/ops/batch_norm.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/array_file.h"
#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/spelling.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, "x"));
}

// Compares the tensors of a file with those of a network, under the names of one program.
class Comparison {
 public:
  Comparison(const WeightSource& source, const std::vector<WeightLayout>& layouts,
             const NameTable& names)
      : source_(source),
        layouts_(layouts),
        names_(names),
        weights_(foreign_weights(source.form(), layouts, names)) {
    std::map<std::string, size_t> there;
    for (size_t i = 0; i < source.tensors().size(); ++i) there[source.tensors()[i].name] = i;
    used_.resize(source.tensors().size());
    for (const ForeignWeight& weight : weights_) {
      const auto found = there.find(weight.name);
      found_.push_back(found == there.end() ? kNone : static_cast<int64_t>(found->second));
      if (found != there.end()) used_[found->second] = true;
    }
  }

  const NameTable& names() const { return names_; }
  const std::vector<ForeignWeight>& weights() const { return weights_; }
  int64_t source_of(size_t layout) const { return found_[layout]; }
  size_t count() const {
    return found_.size() - static_cast<size_t>(std::count(found_.begin(), found_.end(), kNone));
  }

  // Returns true if the file has no logits layer, or one for another number of classes.
  bool head_is_new() const {
    for (size_t i = 0; i < layouts_.size(); ++i)
      if (layouts_[i].head && (found_[i] == kNone || is_of_other_classes(i))) return true;
    return false;
  }
  int64_t head_classes() const {
    for (size_t i = 0; i < layouts_.size(); ++i)
      if (layouts_[i].head && found_[i] != kNone) return classes_in(tensor_of(i).shape);
    return 0;
  }
  std::string head_text() const {
    for (size_t i = 0; i < layouts_.size(); ++i) {
      if (!layouts_[i].head) continue;
      const std::string module = module_of(layouts_[i].name);
      return found_[i] == kNone ? fmt::format("{} is new, because the file has none", module)
                                : fmt::format("{} is new: {} classes, but the file has {}", module,
                                              layouts_[i].shape[0], classes_in(tensor_of(i).shape));
    }
    return "";
  }

  std::string differences() const {
    std::vector<std::string> lines;
    const bool new_head = head_is_new();
    for (size_t i = 0; i < layouts_.size(); ++i) {
      if (new_head && layouts_[i].head) continue;
      if (found_[i] == kNone) {
        lines.push_back(missing_line(weights_[i]));
      } else if (!tensor_of(i).usable) {
        lines.push_back(fmt::format(
            "unsupported dtype: '{}' is {} in the file, but only float32, float64, float16 "
            "and bfloat16 are read",
            tensor_of(i).name, tensor_of(i).dtype));
      } else if (!fits(i)) {
        lines.push_back(shape_line(i));
      }
    }
    for (size_t i = 0; i < used_.size(); ++i)
      if (is_left_over(i))
        lines.push_back(fmt::format("unexpected: '{}' {}", printable(source_.tensors()[i].name),
                                    shape_text(source_.tensors()[i].shape)));
    return in_lines(lines);
  }

 private:
  static constexpr int64_t kNone = -1;

  const SourceTensor& tensor_of(size_t layout) const {
    return source_.tensors()[static_cast<size_t>(found_[layout])];
  }
  bool fits(size_t i) const {
    return source_.form() == WeightForm::pytorch ? layouts_[i].takes(tensor_of(i).shape)
                                                 : tensor_of(i).shape == weights_[i].shape;
  }
  // Compares shapes without outputs, which come first, in Keras last.
  bool is_of_other_classes(size_t i) const {
    std::vector<int64_t> wanted = weights_[i].shape, found = tensor_of(i).shape;
    if (found.empty() || classes_in(wanted) == classes_in(found)) return false;
    const bool last = source_.form() == WeightForm::keras;
    for (std::vector<int64_t>* shape : {&wanted, &found}) {
      shape->erase(last ? shape->end() - 1 : shape->begin());
      std::erase(*shape, 1);
    }
    return wanted == found;
  }
  int64_t classes_in(const std::vector<int64_t>& shape) const {
    if (shape.empty()) return 0;
    return source_.form() == WeightForm::keras ? shape.back() : shape.front();
  }
  // Ignores num_batches_tracked, a PyTorch counter that nothing reads.
  bool is_left_over(size_t i) const {
    const std::string& name = source_.tensors()[i].name;
    return !used_[i] && !name.ends_with("num_batches_tracked") && !names_.is_unused(name);
  }

  // Makes long or malicious names printable.
  static std::string printable(const std::string& name) {
    constexpr size_t kMax = 200;
    const std::string text = utf8_printable(name);
    return text.size() <= kMax ? text : text.substr(0, utf8_start(text, kMax)) + "...";
  }
  static std::string in_lines(const std::vector<std::string>& lines) {
    constexpr size_t kMax = 5000;
    std::string text;
    for (size_t i = 0; i < std::min(lines.size(), kMax); ++i) text += "\n  " + lines[i];
    if (lines.size() > kMax) text += fmt::format("\n  and {} more", lines.size() - kMax);
    return text;
  }

  std::string missing_line(const ForeignWeight& weight) const {
    constexpr size_t kMaxNames = 2000, kLongest = 100;
    std::vector<std::string> near;
    for (size_t i = 0; i < used_.size() && near.size() < kMaxNames; ++i)
      if (is_left_over(i) && source_.tensors()[i].name.size() <= kLongest)
        near.push_back(source_.tensors()[i].name);
    const std::string nearest = nearest_spelling(weight.name, near);
    return fmt::format("missing: '{}' {}{}", weight.name, shape_text(weight.shape),
                       nearest.empty() ? "" : fmt::format("; the file has '{}'", nearest));
  }

  std::string shape_line(size_t i) const {
    const WeightLayout& layout = layouts_[i];
    const SourceTensor& tensor = tensor_of(i);
    std::string line =
        fmt::format("different shape: '{}' is {} in the file, but {} here", tensor.name,
                    shape_text(tensor.shape), shape_text(weights_[i].shape));
    if (layout.flattened > 0 && tensor.shape.size() == layout.shape.size() &&
        tensor.shape[0] == layout.shape[0])
      line += fmt::format(
          "; the network was trained on images of another size (usually 224 pixels a side); "
          "set data.image_size");
    return line;
  }

  const WeightSource& source_;
  const std::vector<WeightLayout>& layouts_;
  const NameTable names_;
  const std::vector<ForeignWeight> weights_;
  std::vector<int64_t> found_;  // tensor of the file for each layout
  std::vector<bool> used_;      // one for each tensor of the file
};

// Reads the values of one tensor. `put` takes the index in the network and the value.
template <class Put>
void read_in_order(const WeightSource& source, size_t index, const ForeignWeight& weight,
                   bool is_variance, Put put) {
  const auto refuse = [&](double value, uint64_t element, const char* rule) {
    fail_weights(source.path(),
                 fmt::format("'{}' has the value {} at element {}, but {}; use another copy",
                             source.tensors()[index].name, value, element, rule));
  };
  constexpr uint64_t kPart = 4096;
  std::vector<double> values(kPart);
  const uint64_t elements = source.tensors()[index].elements();
  for (uint64_t first = 0; first < elements; first += kPart) {
    const auto count = static_cast<size_t>(std::min(kPart, elements - first));
    source.read(index, first, {values.data(), count});
    for (size_t i = 0; i < count; ++i) {
      if (!put(weight.place(static_cast<int64_t>(first + i)), values[i]))
        refuse(values[i], first + i, "weights must be finite in float32");
      if (is_variance && values[i] < 0)
        refuse(values[i], first + i, "variances must not be negative");
    }
  }
}

// Stores a value; returns true if the stored value is finite.
template <class T>
bool put_value(void* data, int64_t place, double value) {
  const T stored = static_cast<T>(value);
  static_cast<T*>(data)[place] = stored;
  return std::isfinite(stored);
}

bool is_variance(const WeightLayout& layout) { return layout.name.ends_with(".running_var"); }

// Drops and returns the prefixes that DataParallel, Lightning and torch.compile add to every name.
std::string drop_wrappers(WeightSource& source, const std::vector<WeightLayout>& layouts) {
  std::string dropped;
  const auto drops = [&](const char* prefix) {
    for (const WeightLayout& layout : layouts)
      if (layout.name.starts_with(prefix)) return false;
    if (!source.drop_prefix(prefix)) return false;
    dropped += prefix;
    return true;
  };
  while (drops("module.") || drops("model.") || drops("_orig_mod.")) continue;
  return dropped;
}

}  // namespace

Pretrained::Pretrained(const std::string& path) : source_(open_weight_source(path)) {}

std::string Pretrained::match(const Config& config, const ImageShape& image) {
  const DeviceScope cpu("cpu:0");
  Store store;
  const std::unique_ptr<Module> network = make_network(config, image, store);
  layouts_ = weight_layouts(*network, store, image, config.model.classes);
  const std::string application = match_application(config);
  const std::string wrappers = drop_wrappers(*source_, layouts_);
  std::vector<NameTable> tables;
  if (config.model.layers.empty() && source_->form() == WeightForm::pytorch)
    tables = name_tables(config.model.name);
  if (tables.empty()) tables = {{"", config.model.name}};
  std::unique_ptr<Comparison> best;
  for (const NameTable& table : tables) {
    auto comparison = std::make_unique<Comparison>(*source_, layouts_, table);
    if (best == nullptr || comparison->count() > best->count()) best = std::move(comparison);
  }
  if (const std::string wrong = best->differences(); !wrong.empty())
    fail_weights(
        source_->path(),
        fmt::format("does not fit {}.{}{}", config.model.name,
                    application.empty() ? what_weights_look_like(*source_, config.model.name)
                                        : fmt::format(" It is {}.", application),
                    wrong));
  const bool new_head = best->head_is_new();
  classes_ = best->head_classes();
  weights_ = best->weights();
  pairs_.clear();
  for (size_t i = 0; i < layouts_.size(); ++i)
    if (!new_head || !layouts_[i].head)
      pairs_.push_back({i, static_cast<size_t>(best->source_of(i))});
  const NameTable& names = best->names();
  std::string origin = application;
  if (!names.program.empty()) origin = fmt::format("{}'s {}", names.program, names.network);
  std::string told = fmt::format("weights: {}{}: {} of {} tensors{}", source_->path(),
                                 origin.empty() ? "" : fmt::format(" ({})", origin), pairs_.size(),
                                 layouts_.size(), new_head ? "; " + best->head_text() : "");
  if (!wrappers.empty())
    told += fmt::format("; the prefix '{}' of every name is ignored", wrappers);
  if (source_->form() == WeightForm::keras && config.model.layers.empty())
    if (const KerasApplication* other = misfit_of_keras(config.model.name))
      told += fmt::format(
          "; weights of keras.applications' {} would also fit, but that network {}, so the results "
          "would differ",
          other->network, other->apart);
  return told;
}

// Returns "keras.applications' DenseNet121", or "" for other weights. If Keras's eps differs from
// Tessera's, the difference is added to the variances.
std::string Pretrained::match_application(const Config& config) {
  more_variance_ = 0;
  const KerasApplication* known = keras_application(source_->layers());
  if (known == nullptr || !config.model.layers.empty()) return "";
  const std::string name = fmt::format("keras.applications' {}", known->network);
  if (!known->apart.empty())
    fail_weights(source_->path(),
                 fmt::format("is {}, which {}, and does not fit our networks; use the weights of a "
                             "PyTorch network as .safetensors",
                             name, known->apart));
  if (known->ours == config.model.name) more_variance_ = known->eps - BatchNormParams{}.eps;
  return name;
}

void Pretrained::check() const {
  for (const auto& [layout, source] : pairs_)
    read_in_order(*source_, source, weights_[layout], is_variance(layouts_[layout]),
                  [](int64_t, double value) { return std::isfinite(static_cast<float>(value)); });
}

void Pretrained::load(const Store& store) const {
  const HostWeights weights(store);
  weights.fetch();  // values that the file lacks stay
  std::map<std::string, const HostArray*> arrays;
  for (const HostArray& array : weights.arrays) arrays[array.name] = &array;
  for (const auto& [layout, source] : pairs_) {
    const HostArray& array = *arrays.at(layouts_[layout].name);
    const bool single = array.dtype == "float32";
    const bool variance = is_variance(layouts_[layout]);
    const double more = variance ? more_variance_ : 0;
    read_in_order(*source_, source, weights_[layout], variance, [&](int64_t place, double value) {
      value += more;
      return single ? put_value<float>(array.data, place, value)
                    : put_value<double>(array.data, place, value);
    });
  }
  weights.put();
}

}  // namespace tessera
