// Functions that only simulated GPUs have (TESSERA_CUDA=DOUBLE, tests/cuda_double/double.h).
#pragma once

#include <vector>

#include <dlfcn.h>

#include "tessera/tests/cuda_double/double.h"

namespace tessera {

// Looks the functions up by name, so that the same tests also link with a real CUDA runtime.
struct GpuDouble {
  decltype(&cuda_double_schedule) schedule = find<decltype(schedule)>("cuda_double_schedule");
  decltype(&cuda_double_fail) fail = find<decltype(fail)>("cuda_double_fail");
  decltype(&cuda_double_failed_call) failed_call =
      find<decltype(failed_call)>("cuda_double_failed_call");
  decltype(&cuda_double_counts_now) counts = find<decltype(counts)>("cuda_double_counts_now");
  decltype(&cuda_double_held_now) held = find<decltype(held)>("cuda_double_held_now");
  decltype(&cuda_double_now) now = find<decltype(now)>("cuda_double_now");
  decltype(&cuda_double_pass) pass = find<decltype(pass)>("cuda_double_pass");
  decltype(&cuda_double_forget_done) forget_done =
      find<decltype(forget_done)>("cuda_double_forget_done");
  decltype(&cuda_double_list_done) list_done = find<decltype(list_done)>("cuda_double_list_done");

  bool here() const { return held != nullptr; }
  std::vector<cuda_double_done> done() const {
    std::vector<cuda_double_done> all(static_cast<size_t>(list_done(nullptr, 0)));
    list_done(all.data(), static_cast<long>(all.size()));
    return all;
  }

 private:
  template <class Function>
  static Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace tessera
