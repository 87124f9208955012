// MachinePeaks: the measured peak rates of the CPU. Profiles compare kernels with them. Never used
// for a plan or a choice of algorithm, which must be the same in every run.
#pragma once

namespace tessera {

class ThreadPool;

struct MachinePeaks {
  double gflops_of_thread = 0;  // one thread: float32 multiplications and additions, 1e9 per second
  double gflops = 0;            // all threads at once
  // Bytes read and written by an uncached copy, all threads at once, 1e9 per second.
  double copy_gbytes = 0;
};

// Measures with the instruction set of the kernels (runtime/simd/isa.h). Takes 0.2 s and 128 MiB.
// Other work on the computer lowers the result.
MachinePeaks measure_peaks(ThreadPool& pool);

}  // namespace tessera
