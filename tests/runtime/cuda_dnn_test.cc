// cuDNN is loaded on first use, and answers for described devices: no GPU is needed. Skipped if
// cuDNN is not installed.
#include <gtest/gtest.h>

#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

#if TESSERA_CUDA
#include <filesystem>

#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/cuda/dnn.h"
#include "tessera/runtime/cuda/dnn_plans.h"
#include "tessera/runtime/shared_library.h"

namespace tessera {
namespace {

class CudaDnn : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string fault = cuda_libraries().dnn.fault; !fault.empty()) GTEST_SKIP() << fault;
  }
};

TEST_F(CudaDnn, IsTheOneItWasBuiltWith) {
  EXPECT_EQ(dnn().version / 10000, static_cast<size_t>(CUDNN_MAJOR));
  EXPECT_GE(dnn().version, kMinDnnVersion);
  EXPECT_TRUE(std::filesystem::equivalent(dnn().file, loaded_library(dnn_library().name)));
  const CudaLibraries told = cuda_libraries();
  EXPECT_EQ(told.dnn.file, dnn().file);
  EXPECT_EQ(told.dnn.running, cuda_version_text(dnn().version, 10000));
}

std::string text_of(cudnnStatus_t code) {
  try {
    cuda_check(code, "cudnnBackendFinalize");
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

TEST_F(CudaDnn, ItsErrorsNameCallStatusAndLibrary) {
  EXPECT_EQ(text_of(CUDNN_STATUS_SUCCESS), "");
  const std::string text = text_of(CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(text.rfind("cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED (3000", 0), 0u) << text;
  EXPECT_NE(text.find(dnn().file), std::string::npos) << text;
  EXPECT_THROW(cuda_check(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, "f"), OutOfMemory);
  EXPECT_THROW(cuda_check(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "f"), OutOfMemory);
  EXPECT_THROW(cuda_check(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH, "f"), VersionMismatch);
}

TEST_F(CudaDnn, TheErrorSaysWhatCudnnSaysOfIt) {
  try {
    const std::string lacking = "{}";
    DnnDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
        .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 2, lacking.data())
        .finalize();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("maxGridSize"), std::string::npos) << error.what();
  }
}

TEST_F(CudaDnn, TakesEveryDescription) {
  for (const std::string& name : gpu_profile_names()) {
    const std::string& json = gpu_profile(name).description;
    DnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               static_cast<int64_t>(json.size()), json.data());
    EXPECT_NO_THROW(device.finalize()) << name;
  }
}

// --gtest_output writes the description, which is a new profile.
TEST_F(CudaDnn, DescribesTheGpuThatIsThere) {
  const std::vector<DeviceInfo> devices = physical_devices();
  if (devices.back().device.is_cpu()) GTEST_SKIP() << why_no_gpu();
  const std::string description = dnn_description(0);
  RecordProperty("description", description);
  const DeviceProperties said = properties_of_description(description);
  const DeviceProperties& seen = *context(Device{DeviceKind::gpu, 0}).properties();
  EXPECT_EQ(said.major, seen.major);
  EXPECT_EQ(said.minor, seen.minor);
  EXPECT_EQ(said.multiprocessors, seen.multiprocessors);
}

}  // namespace
}  // namespace tessera
#endif
