// The algorithms of convolutions on the CPU. All but "eigen" are written by hand for AVX2 and
// AVX-512.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/runtime/context.h"

namespace tessera {

struct ConvAlgorithm {
  std::string_view name;  // in profiles
  // Whether it computes this, and takes less time than those after it in the list by a count made
  // from the shape alone.
  bool (*applies)(const ConvRequest& request, const CpuSettings& settings);
  // Costs little; not prepared yet.
  std::unique_ptr<AnyConvolution> (*make)(const ConvRequest& request, ConvVariant form);
  // Whether it computes the first input from what a prologue reads. Where it does not, that input
  // is computed as a whole, in scratch, before.
  bool (*takes_prologue)(const ConvRequest& request) = never;
  // Whether passes may give it a prologue: a weight gradient also where the forward pass takes one
  // alone, as what is written to scratch was then not written when the forward pass read it.
  bool (*absorbs_prologue)(const ConvRequest& request) = never;
  // Whether filters that do not change are better kept as it reads them.
  bool (*packs_filters)(const ConvRequest& request) = never;

  static bool never(const ConvRequest&) { return false; }

  // The best first; each is defined in the file that computes it.
  static const ConvAlgorithm winograd4, winograd2, depthwise3x3, image_lanes, column_lanes, direct,
      eigen;
};

// Returns those that apply and that this build and processor have, never none; first the one to
// take: by settings.kernels Eigen's, else the best.
std::vector<const ConvAlgorithm*> conv_algorithms(const ConvRequest& request,
                                                  const CpuSettings& settings);
// Requires a name of one of them.
const ConvAlgorithm& conv_algorithm(std::string_view name);

// Returns a convolution that is ready to run. It never changes, so all nodes with the same request,
// in all programs, share it and its tables. Thread-safe.
std::shared_ptr<const AnyConvolution> shared_convolution(const ConvAlgorithm& algorithm,
                                                         const ConvRequest& request,
                                                         ConvVariant form = {});

}  // namespace tessera
