// What a simulated GPU (TESSERA_CUDA=DOUBLE) counts and records. By name, so that the same tests are
// linked where GPUs are real; there they skip what cannot be asked.
#pragma once

#include <vector>

#include <dlfcn.h>

#include "tessera/tests/cuda_double/double.h"

namespace tessera::simulated_gpu {

// nullptr on a real GPU.
template <class F>
F* function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

inline bool is_here() { return function<void()>("cuda_double_now") != nullptr; }
inline cuda_double_counts counts() {
  return function<cuda_double_counts()>("cuda_double_counts_now")();
}
inline double now() { return function<double()>("cuda_double_now")(); }
inline void pass(double seconds) { function<void(double)>("cuda_double_pass")(seconds); }
inline void forget_done() { function<void()>("cuda_double_forget_done")(); }
inline std::vector<cuda_double_done> done() {
  const auto list = function<long(cuda_double_done*, long)>("cuda_double_list_done");
  std::vector<cuda_double_done> all(static_cast<size_t>(list(nullptr, 0)));
  list(all.data(), static_cast<long>(all.size()));
  return all;
}

}  // namespace tessera::simulated_gpu
