#include "tessera/models/study/other_data.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/models/run/inference.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {

namespace {

struct NamedData {
  std::string name, root;
};

NamedData named(const std::string& data) {
  std::error_code error;
  if (std::filesystem::is_directory(data, error)) return {"image_folder", data};
  if (std::filesystem::exists(data, error)) return {"hdf5", data};
  const std::vector<std::string>& known = data_names();
  const size_t equals = data.find('=');
  const std::string name = data.substr(0, equals);
  const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
  if (equals != data.npos && is_known) return {name, data.substr(equals + 1)};
  if (equals != data.npos) throw ConfigError("--data: " + unknown_name(name, known));
  throw DataError(fmt::format(
      "--data: there is no folder or file '{}'; give a folder of class folders, an HDF5 file{}",
      data,
      is_known ? fmt::format(", or where the files of that data set lie: {}=PATH", name)
               : std::string(", or NAME=PATH, such as cifar10=data/cifar10")));
}

void check_channels(const PublishedSet& set, const std::string& inference) {
  const std::optional<ImageShape> told = input_in(inference);
  if (told && told->channels != set.shape.channels)
    throw ConfigError(fmt::format(
        "--data: the images of {} have {}, those of the run {}; in a folder of pictures they would "
        "be brought to that",
        set.name, set.shape.channels == 1 ? "one channel" : "three channels", told->channels));
}

// What the pictures of a folder are brought to.
void add_picture_size(const Config& run, const std::string& inference,
                      std::vector<std::string>& overrides) {
  const std::optional<ImageShape> told = input_in(inference);
  const ImageShape image = told ? *told : image_shape(run.data);
  if (image.height != image.width)
    throw ConfigError(fmt::format(
        "--data: the run's images are {}x{} pixels, and pictures of a folder become square; give "
        "an HDF5 file with images of that size",
        image.height, image.width));
  // A run that trained on crops was tested on larger images.
  if (run.data.name != "image_folder")
    overrides.push_back(fmt::format("data.image_size={}", image.height));
  overrides.push_back(fmt::format("data.channels={}", image.channels));
}

std::string list(const std::vector<float>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

// That of the configuration, and of the few runs whose configuration has none that of `inference`.
void add_normalization(const Config& run, const std::string& inference,
                       std::vector<std::string>& overrides) {
  if (!run.data.mean.empty()) return;
  const std::optional<Normalization> told = normalization_in(inference);
  if (!told)
    throw ConfigError(
        "--data: the run does not tell what its images were normalized with; evaluate it on data "
        "of its kind with data.root=PATH instead, or give data.name, data.root, data.mean and "
        "data.std");
  overrides.push_back("data.mean=" + list(told->mean));
  overrides.push_back("data.std=" + list(told->std));
}

[[noreturn]] void refuse(const std::string& place, const std::vector<std::string>& unknown,
                         const std::vector<std::string>& known) {
  constexpr size_t kMost = 8, kMostKnown = 20;
  std::vector<std::string> lines;
  for (const std::string& name : unknown) {
    if (lines.size() == kMost) break;
    const std::string near = nearest_spelling(name, known);
    lines.push_back(
        fmt::format("'{}'{}", name, near.empty() ? "" : fmt::format(" (is '{}' meant?)", near)));
  }
  if (unknown.size() > kMost) lines.push_back(fmt::format("and {} more", unknown.size() - kMost));
  const size_t shown = std::min(known.size(), kMostKnown);
  throw DataError(fmt::format(
      "{}: of its classes the run does not know {}; name classes as the run does, or leave them "
      "out "
      "(it knows {}{})",
      place, fmt::join(lines, ", "), fmt::join(known.begin(), known.begin() + shown, ", "),
      shown < known.size() ? fmt::format(" and {} more", known.size() - shown) : ""));
}

}  // namespace

std::vector<std::string> data_overrides(const std::string& data, const Config& run,
                                        const std::string& inference) {
  const auto [name, root] = named(data);
  // In quotes, with what YAML would take for its own escaped.
  std::vector<std::string> overrides{"data.name=" + name, "data.root=" + Json(root).text(),
                                     "~data.train_count", "~data.test_count", "~data.validation"};
  if (name != run.data.name) {
    overrides.emplace_back("~data.image_size");
    overrides.emplace_back("~data.damaged");
  }
  if (const PublishedSet* set = find_published(name)) check_channels(*set, inference);
  if (name == "image_folder") add_picture_size(run, inference, overrides);
  add_normalization(run, inference, overrides);
  return overrides;
}

std::shared_ptr<const Dataset> under_classes_of(const Config& config, const std::string& inference,
                                                std::shared_ptr<const Dataset> data,
                                                const Print& print) {
  const std::vector<std::string> known = class_names_in(inference);
  std::vector<std::string> names;
  for (const std::string& name : data->class_names()) names.push_back(name_in_inference(name));
  if (names == known || names.empty() || known.empty()) {
    if (names != known)
      print(fmt::format("classes go by their numbers, as {} names none",
                        names.empty() ? data->name() : "the run"));
    if (data->classes() > config.model.classes)
      throw ConfigError(fmt::format(
          "data: {} has {} classes, the model knows only {}, and they go by their numbers; leave "
          "the images of the others out",
          data->name(), data->classes(), config.model.classes));
    return data;
  }
  const std::vector<int64_t> images = images_of_classes(*data);
  std::vector<int64_t> labels(names.size(), -1);
  std::vector<std::string> unknown;
  int64_t found = 0;
  for (size_t c = 0; c < names.size(); ++c) {
    const auto at = std::find(known.begin(), known.end(), names[c]);
    if (at != known.end())
      labels[c] = at - known.begin();
    else if (images[c] > 0)
      unknown.push_back(names[c]);
    found += at != known.end() && images[c] > 0 ? 1 : 0;
  }
  if (!unknown.empty())
    refuse(config.data.root.empty() ? data->name() : config.data.root, unknown, known);
  print(
      fmt::format("classes go by their names: images of {} of the run's {}", found, known.size()));
  return relabelled(std::move(data), std::move(labels), static_cast<int>(known.size()), known);
}

}  // namespace tessera
