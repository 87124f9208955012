// Launches of kernels on streams of the double.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>

namespace cuda_double {

constexpr unsigned kMaxThreads = 1024;  // per block
// The compiler's list of the addresses of functions that begin with no-ops, in the calling program
// or library.
__attribute__((weak, visibility("hidden"))) extern const uintptr_t kBoundedBegin[] __asm__(
    "__start___patchable_function_entries");
__attribute__((weak, visibility("hidden"))) extern const uintptr_t kBoundedEnd[] __asm__(
    "__stop___patchable_function_entries");

// Returns the kernel's __launch_bounds__ (emulator.h), stored as the number of no-ops before the
// kernel. Returns kMaxThreads if there are none, or if the compiler is not g++ for x86-64.
__attribute__((visibility("hidden"))) inline unsigned max_threads(uintptr_t kernel) {
  uintptr_t nearest = 0;
  for (const uintptr_t* at = kBoundedBegin; at != kBoundedEnd; ++at)
    if (*at<kernel&& * at> nearest) nearest = *at;
  const uintptr_t bound = kernel - nearest;
  if (bound > kMaxThreads) return kMaxThreads;
  constexpr unsigned char kNoOp = 0x90;
  const auto* const code = reinterpret_cast<const unsigned char*>(nearest);
  for (uintptr_t i = 0; i < bound; ++i)
    if (code[i] != kNoOp) return kMaxThreads;  // in another function
  return static_cast<unsigned>(bound);
}

// Refuses what a GPU would refuse, else puts the work on its stream. `thread` is called once for
// each thread of the grid.
cudaError_t start(const char* name, const cudaLaunchConfig_t& config, size_t parameter_bytes,
                  unsigned max_threads, std::function<void()> thread);

// Works like cudaLaunchKernelEx: arguments are converted to the kernel's parameters and kept by
// value.
template <class... P, class... A>
cudaError_t launch(const char* name, const cudaLaunchConfig_t& config, void (*kernel)(P...),
                   A&&... args) {
  auto values = std::make_shared<std::tuple<std::remove_cv_t<P>...>>(std::forward<A>(args)...);
  return start(name, config, (sizeof(P) + ... + 0),
               max_threads(reinterpret_cast<uintptr_t>(kernel)),
               [kernel, values] { std::apply(kernel, *values); });
}

}  // namespace cuda_double
