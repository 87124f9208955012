// onnx_text(): exports a trained network as an ONNX file of opset 17, for other runtimes.
//
// Input "images" is float32 [batch, channels, height, width], normalised; output "logits" is
// float32 [batch, classes]. Values that depend only on weights are folded to constants. A batch
// norm is folded into the convolution before it, or becomes a BatchNormalization if there is none.
// The file also has the text `inference` (models/run/inference.h).
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct TrainedNetwork;  // models/run/trained_network.h

// Returns the content of the file. batch 0 allows any batch. Throws ConfigError if an op has no
// ONNX form (names the op), or if the weights exceed the size limit of an ONNX file.
std::string onnx_text(const TrainedNetwork& trained, int64_t batch);

}  // namespace tessera
