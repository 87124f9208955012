// The inference description: how an image becomes the network's input, and what its outputs are.
// The description is JSON: the text `inference` of weights.safetensors and of checkpoints, a member
// of plan.json, and inference.json. docs/inference.md explains every member.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/runtime/text/json.h"

namespace tessera {

// Returns the description. `image` is the network's input. `normalization` is empty if not yet
// known. Class names may be empty.
Json inference_json(const Config& config, const ImageShape& image,
                    const Normalization& normalization,
                    const std::vector<std::string>& class_names);

// Returns the description as far as it is known without opening the data.
Json planned_inference(const Config& config, const ImageShape& image);

// Returns the description as YAML comments, one line per member.
std::string inference_comment(const Json& inference);

// Return the size of the JSON text in a checkpoint, and the text padded with blanks to this size.
// Only the configuration decides the size, so the memory is known before the data is opened.
// Members that do not fit are left out, class names first.
size_t inference_capacity(const Config& config);
std::string padded_inference(const Json& inference, const Config& config);

// Return a member of such a text; empty if the member is missing.
std::optional<Normalization> normalization_in(const std::string& inference);
std::optional<ImageShape> input_in(const std::string& inference);
int resize_in(const std::string& inference);  // data.resize; 0 if it is missing, too
std::vector<std::string> class_names_in(const std::string& inference);
// Returns a name as read back from such a text: bytes that are not UTF-8 are replaced.
std::string name_in_inference(const std::string& name);

}  // namespace tessera
