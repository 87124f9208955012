// What only a simulated GPU can be asked (TESSERA_CUDA=DOUBLE, tests/cuda_double/double.h).
#pragma once

#include <dlfcn.h>

#include "tessera/tests/cuda_double/double.h"

namespace tessera {

// By name, so that the same test is linked where GPUs are real.
struct GpuDouble {
  decltype(&cuda_double_schedule) schedule = find<decltype(schedule)>("cuda_double_schedule");
  decltype(&cuda_double_fail) fail = find<decltype(fail)>("cuda_double_fail");
  decltype(&cuda_double_failed_call) failed_call =
      find<decltype(failed_call)>("cuda_double_failed_call");
  decltype(&cuda_double_counts_now) counts = find<decltype(counts)>("cuda_double_counts_now");
  decltype(&cuda_double_held_now) held = find<decltype(held)>("cuda_double_held_now");

  bool here() const { return held != nullptr; }

 private:
  template <class Function>
  static Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace tessera
