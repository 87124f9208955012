// Replaces libcuda.so.1: the driver of a computer that was not updated.
extern "C" {

int cuInit(unsigned) { return 0; }

int cuDriverGetVersion(int* version) {
  *version = 11000;  // CUDA 11.0
  return 0;
}
}
