// MachinePeaks: the measured peak rates of the CPU or a GPU. Profiles compare kernels with them.
// Never used for a plan or a choice of algorithm, which must be the same in every run.
#pragma once

#include <functional>
#include <string>

namespace tessera {

class ThreadPool;

struct MachinePeaks {
  // Float32 multiplications and additions of one thread (0 for a GPU), 1e9 per second.
  double gflops_of_thread = 0;
  double gflops = 0;       // all threads at once; of a GPU's products, TF32 if gpu.tf32
  double bf16_gflops = 0;  // products of bfloat16, all threads: `gflops` without VDPBF16PS
  // Bytes read and written by an uncached copy, all threads at once, 1e9 per second.
  double copy_gbytes = 0;
  // "peak 234.8 GFLOP/s (118.1 of one thread; 469.6 in bfloat16), copy 38.7 GB/s"
  std::string text() const;
};

// Measures the CPU with the instruction set of the kernels (runtime/simd/isa.h). Takes 0.3 s and
// 128 MiB. Other work on the computer lowers the result.
MachinePeaks measure_peaks(ThreadPool& pool);

// Calls run() for 60 ms, at least once, and returns the rate of the fastest call in 1e9 units per
// second, a call being `amount` units. Disturbances only make a call slower.
double best_rate(double amount, const std::function<void()>& run);

}  // namespace tessera
