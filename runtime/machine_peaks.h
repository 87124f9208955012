// What the CPU can do at most, measured: for profiles, to say how near a kernel comes to it. Never
// for a plan or a choice of algorithm, which must be the same in every run.
#pragma once

namespace tessera {

class ThreadPool;

struct MachinePeaks {
  double gflops_of_thread = 0;  // float32 multiplications and additions of one thread, 1e9 a second
  double gflops = 0;            // of all threads at once
  // Read and written by a copy that no cache holds, all threads at once, 1e9 bytes a second.
  double copy_gbytes = 0;
};

// With the instruction set that the kernels use (runtime/simd/isa.h). Takes a fifth of a second
// and, while it runs, 128 MiB. Other work on the machine shows in it.
MachinePeaks measure_peaks(ThreadPool& pool);

}  // namespace tessera
