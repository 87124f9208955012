// What a program needs besides the weights to use them: how an image becomes the network's input,
// and what its outputs are. As JSON it is the text `inference` of weights.safetensors and of
// checkpoints, a member of plan.json, and inference.json; docs/inference.md explains every member.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

// `image`: that the network is given. `normalization`: empty where it is not known yet. Class names
// may be empty.
Json inference_json(const Config& config, const ImageShape& image,
                    const Normalization& normalization,
                    const std::vector<std::string>& class_names);

// What is known without opening the data.
Json planned_inference(const Config& config, const ImageShape& image);

// The same as comments of YAML, a line for each member.
std::string inference_comment(const Json& inference);

// In a checkpoint the text, as JSON writes it, has a length that the configuration alone decides,
// so that the memory is known before the data are opened: it ends in blanks. What does not fit,
// class names first, is left out.
size_t inference_room(const Config& config);
std::string padded_inference(const Json& inference, const Config& config);

// Of such a text; none, or empty, where it does not tell.
std::optional<Normalization> normalization_in(const std::string& inference);
std::optional<ImageShape> input_in(const std::string& inference);
std::vector<std::string> class_names_in(const std::string& inference);
// A name as such a text gives it back: what is not UTF-8 is replaced in it.
std::string name_in_inference(const std::string& name);

}  // namespace tessera
