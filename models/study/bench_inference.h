// How fast the network of a configuration answers, with weights as they are initialised.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/models/run/classifier.h"
#include "tessera/models/training/run.h"

namespace tessera {

struct InferenceBench {
  double load_ms = 0;             // from the weights in memory to the first answer's program
  double p50_ms = 0, p99_ms = 0;  // of one image, from bytes to logits
  double images_per_second = 0;   // of the median batch
  int64_t batch = 0;              // data.batch
  Classifier::Bytes one, many;    // of the plan for one image, for a batch
  int threads = 0;
  std::string kernels;  // native or eigen
  std::string json() const;
};

// Times `calls` calls with one image and as many with a batch. Throws ConfigError.
InferenceBench bench_inference(const Run& run, int64_t calls);

}  // namespace tessera
