// The one place that reads the preprocessor switch TESSERA_CUDA. What is declared here is defined
// only in builds with CUDA: call it inside `if constexpr (kCuda)`, which leaves no reference behind
// in the others.
#pragma once

#include <string>
#include <vector>

#include "tessera/runtime/device.h"

namespace tessera {

#if defined(TESSERA_CUDA) && TESSERA_CUDA
inline constexpr bool kCuda = true;
#else
inline constexpr bool kCuda = false;
#endif

class Context;
class CudaContext;

std::vector<DeviceInfo> cuda_devices();
std::string cuda_unusable_reason();
bool cuda_version_mismatch();
Context& cuda_context(int index);        // throws DeviceError
CudaContext& as_cuda(Context& context);  // of a GPU's context

}  // namespace tessera
