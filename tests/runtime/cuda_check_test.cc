// The vendor's error codes as exceptions; no GPU is needed.
#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

#if TESSERA_CUDA
#include "tessera/runtime/cuda/check.h"

namespace tessera {
namespace {

TEST(CudaCheck, AVersionThatDoesNotFitIsAnErrorOfItsOwn) {
  EXPECT_NO_THROW(cuda_check(cudaSuccess, "cudaMalloc"));
  EXPECT_THROW(cuda_check(cudaErrorInsufficientDriver, "cudaSetDevice"), VersionMismatch);
  EXPECT_THROW(cuda_check(cudaErrorUnsupportedPtxVersion, "kernel"), VersionMismatch);
  try {
    cuda_check(cudaErrorMemoryAllocation, "cudaMalloc");
    FAIL();
  } catch (const VersionMismatch&) {
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("smaller batch"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
#endif
