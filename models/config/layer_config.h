// A model as a list of layers, the way configurations give it:
//
//   model:
//     classes: 10
//     layers:
//       - {conv: {filters: 32, kernel: 3, padding: 1}}
//       - batch_norm
//       - relu
//       - {residual: [{conv: {filters: 32, kernel: 3, padding: 1}}, relu]}
//       - global_average_pool
//       - {linear: {units: 10}}
//
// The shapes follow from the images: x [n, height, width, channels] goes through the layers in
// order, and the last must make [n, classes]. The kinds and their options stand in
// layer_network.cc. Parts are named by kind and place in their list: "conv0", "residual3.conv0".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/config/diagnostics.h"

namespace tessera {

struct LayerConfig {
  std::string kind = "relu";
  int64_t filters = 0, kernel = 0;                // conv; pixels a side
  int64_t stride = 1, padding = 0, dilation = 1;  // conv; pixels
  int64_t groups = 1;                             // conv, group_norm
  bool bias = true;                               // conv, linear
  bool identity = false;                          // conv: filters start as the identity
  int64_t size = 0;                               // pools: pixels a side
  std::optional<int64_t> pool_stride;             // pools: the size when not given
  int64_t units = 0;                              // linear
  double probability = 0.5;                       // dropout
  double eps = 1e-5;                              // norms
  double momentum = 0.1;                          // batch_norm
  bool scale = true;                              // batch_norm
  double factor = 1;                              // scale
  bool round_up = false;                          // pools: the number of windows
  double slope = 0.01;                            // leaky_relu
  double first_slope = 0.25;                      // prelu
  double alpha = 1;                               // elu
  double start = 1e-6;                            // layer_scale
  int64_t squeeze = 0;                            // squeeze_excitation: channels in the middle
  std::string activation = "relu";                // squeeze_excitation
  std::string gate = "sigmoid";                   // squeeze_excitation
  int64_t norm_size = 5;                          // local_response_norm: channels
  double norm_alpha = 1e-4, norm_beta = 0.75;     // local_response_norm
  double norm_k = 1;                              // local_response_norm
  std::vector<LayerConfig> layers;                // residual: y = layers(x) + shortcut(x)
  std::vector<LayerConfig> shortcut;              // residual: empty: x itself
  SourceRange range;                              // of its name, when it was read
};

}  // namespace tessera
