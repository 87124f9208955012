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
  // Returns true if the algorithm can compute the request and is faster than those after it in the
  // list, estimated from the shape alone.
  bool (*applies)(const ConvRequest& request, const CpuSettings& settings);
  // Returns a convolution that is not prepared yet; cheap.
  std::unique_ptr<AnyConvolution> (*make)(const ConvRequest& request, ConvVariant form);
  // Returns true if a prologue is applied while the first input is read. Otherwise that whole input
  // is computed into scratch first.
  bool (*takes_prologue)(const ConvRequest& request) = never;
  // Returns true if passes may fuse a prologue. A weight gradient may also have one that only the
  // forward pass applies while reading: the input that it writes to scratch was not written by the
  // forward pass.
  bool (*absorbs_prologue)(const ConvRequest& request) = never;
  // Returns true if constant filters should be prepacked.
  bool (*packs_filters)(const ConvRequest& request) = never;
  // Returns true if the algorithm takes inputs of 16 bits as they are; others get float32.
  bool (*takes_half)(const ConvRequest& request) = never;
  // Whether filters are read in float32 anyway, and may be rounded to 16 bits then.
  bool rounds_filters = false;

  static bool never(const ConvRequest&) { return false; }
  static bool bfloat16_inputs(const ConvRequest& request) { return request.dtype == DType::bf16; }
  // Returns the request with the dtype of the inputs that the algorithm gets.
  ConvRequest as_taken(ConvRequest request) const {
    if (!takes_half(request)) request.dtype = compute_type(request.dtype);
    return request;
  }

  // Best first; each is defined in the file that implements it.
  static const ConvAlgorithm winograd4, winograd2, depthwise3x3, image_lanes, column_lanes, direct,
      eigen;
};

// Returns the algorithms that apply and that this build and processor have; never empty. The first
// is the one to use: eigen if settings.kernels is CpuKernels::eigen, else the best.
std::vector<const ConvAlgorithm*> conv_algorithms(const ConvRequest& request,
                                                  const CpuSettings& settings);
// Returns the algorithm of this name. Throws InternalError if there is none.
const ConvAlgorithm& conv_algorithm(std::string_view name);

// Returns a prepared convolution. It is immutable, so all nodes with the same request, in all
// programs, share it and its tables. Thread-safe.
std::shared_ptr<const AnyConvolution> shared_convolution(const ConvAlgorithm& algorithm,
                                                         const ConvRequest& request,
                                                         ConvVariant form = {});

}  // namespace tessera
