#include "tessera/layers/conv2d/cpu/convolution.h"

#include <algorithm>
#include <mutex>
#include <span>

#include "tessera/runtime/error.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {
namespace {

std::span<const ConvAlgorithm* const> all_conv_algorithms() {
  if constexpr (kNativeKernels) {
    using A = ConvAlgorithm;
    static constexpr const A* kAll[] = {&A::winograd4,   &A::winograd2,    &A::depthwise3x3,
                                        &A::image_lanes, &A::column_lanes, &A::direct,
                                        &A::eigen};
    if (has_native_kernels()) return kAll;
  }
  static constexpr const ConvAlgorithm* kEverywhere[] = {&ConvAlgorithm::eigen};
  return kEverywhere;
}

struct KnownConvolution {
  const ConvAlgorithm* algorithm;
  ConvRequest request;
  ConvVariant form;
  std::weak_ptr<const AnyConvolution> convolution;
};

}  // namespace

std::vector<const ConvAlgorithm*> conv_algorithms(const ConvRequest& request,
                                                  const CpuSettings& settings) {
  std::vector<const ConvAlgorithm*> applying;
  for (const ConvAlgorithm* algorithm : all_conv_algorithms())
    if (algorithm->applies(request, settings)) applying.push_back(algorithm);
  if (settings.kernels == CpuKernels::eigen)
    std::rotate(applying.begin(), applying.end() - 1, applying.end());
  return applying;
}

const ConvAlgorithm& conv_algorithm(std::string_view name) {
  for (const ConvAlgorithm* algorithm : all_conv_algorithms())
    if (algorithm->name == name) return *algorithm;
  throw InternalError("a convolution algorithm was chosen that does not exist");
}

std::shared_ptr<const AnyConvolution> shared_convolution(const ConvAlgorithm& algorithm,
                                                         const ConvRequest& request,
                                                         ConvVariant form) {
  static std::mutex mutex;
  static auto* all = new std::vector<KnownConvolution>;  // outlives all programs
  const std::lock_guard lock(mutex);
  std::erase_if(*all, [](const KnownConvolution& known) { return known.convolution.expired(); });
  for (const KnownConvolution& known : *all)
    if (known.algorithm == &algorithm && known.request == request && known.form == form)
      if (auto found = known.convolution.lock()) return found;
  std::unique_ptr<AnyConvolution> made = algorithm.make(request, form);
  made->prepare();
  std::shared_ptr<const AnyConvolution> shared = std::move(made);
  all->push_back({&algorithm, request, form, shared});
  return shared;
}

}  // namespace tessera
