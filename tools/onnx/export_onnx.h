// A trained network for other runtimes: an ONNX file of opset 17.
//
// Input "images" is float32 [batch, channels, height, width], normalised; output "logits" is
// float32 [batch, classes]. What depends on weights alone is computed before. A batch norm becomes
// part of the convolution before it, or a BatchNormalization if there is none. Beside the graph
// stands the text `inference` (models/run/inference.h).
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct TrainedNetwork;  // models/run/trained_network.h

// The bytes of the file. batch 0: any. Throws ConfigError for an op that cannot be written, which
// it names, and for more weights than one file of ONNX holds.
std::string onnx_text(const TrainedNetwork& trained, int64_t batch);

}  // namespace tessera
