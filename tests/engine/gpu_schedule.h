// GpuSchedule: when a simulated GPU runs issued work (TESSERA_CUDA=DOUBLE).
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/tests/engine/gpu_double.h"

namespace tessera {

// Sets the schedule for the lifetime of the object; TESSERA_DOUBLE then applies again. Does nothing
// on a real GPU.
class GpuSchedule {
 public:
  explicit GpuSchedule(const std::string& text) { set(text.c_str()); }
  ~GpuSchedule() {
    const char* before = std::getenv("TESSERA_DOUBLE");
    set(before != nullptr ? before : "eager");
  }
  GpuSchedule(const GpuSchedule&) = delete;
  GpuSchedule& operator=(const GpuSchedule&) = delete;

  static std::vector<std::string> all() {
    std::vector<std::string> texts{"eager", "lazy"};
    for (int seed = 1; seed <= 16; ++seed) texts.push_back("random:" + std::to_string(seed));
    return texts;
  }

 private:
  static void set(const char* text) {
    if (const auto schedule = GpuDouble().schedule) schedule(text);
  }
};

}  // namespace tessera
