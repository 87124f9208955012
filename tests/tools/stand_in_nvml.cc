// Replaces libnvidia-ml.so.1: a driver with one GPU on which two processes compute.
#include <cstring>

#include <unistd.h>

extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::strncpy(version, "580.65.06", length);
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  static int gpu;
  *device = &gpu;
  return std::strcmp(bus, "0000:3B:00.0") == 0 ? 0 : 6;  // not found
}

struct Memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80ull << 30, 71ull << 30, 9ull << 30};
  return 0;
}

struct Process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  if (*count < 3) return 7;  // too small
  processes[0] = {1, 5ull << 30, ~0u, ~0u};
  processes[1] = {static_cast<unsigned>(getpid()), 1ull << 30, ~0u, ~0u};
  processes[2] = {4000000000u, ~0ull, ~0u, ~0u};
  *count = 3;
  return 0;
}
}
