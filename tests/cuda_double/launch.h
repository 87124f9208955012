// How a kernel gets onto a stream of the double.
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>

namespace cuda_double {

// Refuses what the machine would refuse, else puts the work on its stream. `thread` is called once
// for each thread of the grid.
cudaError_t start(const char* name, const cudaLaunchConfig_t& config, size_t parameter_bytes,
                  std::function<void()> thread);

// As cudaLaunchKernelEx: arguments are converted to the kernel's parameters and kept by value.
template <class... P, class... A>
cudaError_t launch(const char* name, const cudaLaunchConfig_t& config, void (*kernel)(P...),
                   A&&... args) {
  auto values = std::make_shared<std::tuple<std::remove_cv_t<P>...>>(std::forward<A>(args)...);
  return start(name, config, (sizeof(P) + ... + 0),
               [kernel, values] { std::apply(kernel, *values); });
}

}  // namespace cuda_double
