#include "tessera/models/run/inference.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/models/data/moments.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

Json numbers(const std::vector<float>& values) {
  if (values.empty()) return {};
  return Json::list_of(values, [](float value) { return shortest(value); });
}

// Returns how a picture, or a value of a file, becomes the bytes of the input.
Json preparation(const Config& config, const ImageShape& image) {
  const DataConfig& data = config.data;
  if (data.name == "image_folder")
    return fmt::format(
        "rotated as EXIF specifies; the short side resized to {} pixels, then a center crop of {} "
        "x {}",
        data.resize > 0 ? data.resize : image.height, image.height, image.width);
  if (data.name == "hdf5" && data.range.size() == 2)
    return fmt::format("round((value - {0}) / ({1} - {0}) * 255)", data.range[0], data.range[1]);
  return {};
}

// Returns the preparation of any picture in numbers, for examples/prepare.py.
Json picture(const ImageShape& image, int resize) {
  const Json size = Json::list({image.height, image.width});
  const Json cover = resize > 0 ? Json::list({resize, resize}) : size;
  return Json::object({
      {"exif_orientation", true},
      {"resize",
       Json::object(
           {{"cover", cover}, {"filter", "bilinear"}, {"support", 1}, {"antialias", true}})},
      {"crop", Json::object({{"size", size}, {"rounding", "half_to_even"}})},
      {"jpeg_scale", 1},
  });
}

}  // namespace

Json inference_json(const Config& config, const ImageShape& image,
                    const Normalization& normalization,
                    const std::vector<std::string>& class_names) {
  std::vector<Json::Member> weights{{"conv2d", "OHWI"}, {"linear", "OI"}, {"flatten", "HWC"}};
  if (config.ema.decay) weights.emplace_back("average", *config.ema.decay);
  return Json::object({
      {"model", config.model.name},
      {"input", Json::object({{"height", image.height},
                              {"width", image.width},
                              {"channels", image.channels},
                              {"order", image.channels == 3 ? "RGB" : "gray"},
                              {"layout", "NHWC"},
                              {"dtype", "uint8"},
                              {"preparation", preparation(config, image)},
                              {"picture", picture(image, config.data.resize)}})},
      {"normalization", Json::object({{"formula", "(x / 255 - mean) / std"},
                                      {"mean", numbers(normalization.mean)},
                                      {"std", numbers(normalization.std)}})},
      {"output",
       Json::object({{"values", "logits"},
                     {"classes", config.model.classes},
                     {"class_names", class_names.empty() ? Json() : Json::list_of(class_names)}})},
      {"weights", Json::object(weights)},
  });
}

Json planned_inference(const Config& config, const ImageShape& image) {
  Normalization normalization;
  std::vector<std::string> names;
  if (const PublishedSet* set = find_published(config.data.name)) {
    normalization = set->normalization;
    names = set->labels_of(config.data.labels == "coarse").names;
  }
  if (!config.data.mean.empty()) {
    normalization.mean.assign(config.data.mean.begin(), config.data.mean.end());
    normalization.std.assign(config.data.std.begin(), config.data.std.end());
  }
  return inference_json(config, image, normalization, names);
}

std::string inference_comment(const Json& inference) {
  std::string text =
      "\n# Needed for inference in addition to weights.safetensors (docs/inference.md):\n";
  for (const auto& [name, value] : inference.members())
    text += fmt::format("#   {}: {}\n", name, value.text());
  return text;
}

size_t inference_capacity(const Config& config) {
  constexpr int64_t kMaxNamed = 1 << 14;
  constexpr size_t kBase = 2048, kName = 72;
  return kBase + kName * static_cast<size_t>(std::min(config.model.classes, kMaxNamed));
}

std::string padded_inference(const Json& inference, const Config& config) {
  const size_t capacity = inference_capacity(config);
  const auto escaped = [](const std::string& text) { return Json(text).text().size() - 2; };
  std::string text = inference.text();
  if (escaped(text) > capacity) {
    std::vector<Json::Member> members = inference.members();
    for (auto& [name, value] : members)
      if (name == "output")
        value = Json::object(
            {{"values", value["values"]}, {"classes", value["classes"]}, {"class_names", nullptr}});
    text = Json::object(members).text();
  }
  if (escaped(text) > capacity) text = "{}";
  return text + std::string(capacity - escaped(text), ' ');
}

std::optional<Normalization> normalization_in(const std::string& inference) try {
  const Json told = Json::parse(inference)["normalization"];
  Normalization result;
  for (const Json& value : told["mean"].items())
    result.mean.push_back(static_cast<float>(value.number()));
  for (const Json& value : told["std"].items())
    result.std.push_back(static_cast<float>(value.number()));
  if (result.mean.empty() || result.mean.size() != result.std.size()) return {};
  return result;
} catch (const Error&) {
  return {};
}

int resize_in(const std::string& inference) try {
  const Json told = Json::parse(inference)["input"];
  int64_t cover = 0;
  for (const Json& side : told["picture"]["resize"]["cover"].items())
    cover = std::max(cover, side.integer());
  const int64_t side = std::max(told["height"].integer(), told["width"].integer());
  return cover > side ? static_cast<int>(std::min<int64_t>(cover, 1 << 16)) : 0;
} catch (const Error&) {
  return 0;
}

std::optional<ImageShape> input_in(const std::string& inference) try {
  const Json told = Json::parse(inference)["input"];
  const auto extent = [&](const char* name) {
    return static_cast<int>(std::clamp<int64_t>(told[name].integer(), 0, 1 << 16));
  };
  const ImageShape image{extent("height"), extent("width"), extent("channels")};
  if (image.height < 1 || image.width < 1 || image.channels < 1) return {};
  return image;
} catch (const Error&) {
  return {};
}

std::vector<std::string> class_names_in(const std::string& inference) try {
  std::vector<std::string> names;
  for (const Json& name : Json::parse(inference)["output"]["class_names"].items())
    names.push_back(name.string());
  return names;
} catch (const Error&) {
  return {};
}

std::string name_in_inference(const std::string& name) {
  return Json::parse(Json(name).text()).string();
}

}  // namespace tessera
