// cuBLASLt is loaded on first use; no GPU is needed.
#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

#if TESSERA_CUDA
#include <filesystem>

#include "tessera/runtime/cuda/blas.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/shared_library.h"

namespace tessera {
namespace {

TEST(CudaBlas, IsLoadedOnFirstUseAndIsTheOneItWasBuiltWith) {
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 1) {  // ctest runs it alone
    EXPECT_EQ(loaded_library(blas_library().name), "");
  }
  EXPECT_EQ(blas().version / 10000, static_cast<size_t>(CUBLAS_VER_MAJOR));
  EXPECT_TRUE(std::filesystem::equivalent(blas().file, loaded_library(blas_library().name)));
  const CudaLibraries told = cuda_libraries();
  EXPECT_EQ(told.blas.file, blas().file);
  EXPECT_EQ(told.blas.running, cuda_version_text(blas().version, 10000));
  EXPECT_EQ(told.blas.fault, "");
}

TEST(CudaBlas, ItsErrorsNameTheLibrary) {
  try {
    cuda_check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul");
    FAIL();
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("cublasLtMatmul: "), std::string::npos) << text;
    EXPECT_NE(text.find("CUBLAS_STATUS_NOT_SUPPORTED"), std::string::npos) << text;
    EXPECT_NE(text.find(blas().file), std::string::npos) << text;
  }
}

TEST(CudaBlas, VersionsReadAsPeopleWriteThem) {
  EXPECT_EQ(cuda_version_text(13000, 1000), "13.0");
  EXPECT_EQ(cuda_version_text(12080, 1000), "12.8");
  EXPECT_EQ(cuda_version_text(130100, 10000), "13.1.0");
}

}  // namespace
}  // namespace tessera
#endif
