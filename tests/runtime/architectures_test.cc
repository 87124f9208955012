// The GPUs that a build has code for; needs neither CUDA nor a GPU.
#include <gtest/gtest.h>

#include "tessera/runtime/cuda/device_properties.h"

namespace tessera {
namespace {

constexpr const char* kAll = "75-real,80-real,90";

TEST(Architectures, RunTheirOwnMachineCodeAndWhatIsTranslated) {
  for (auto [major, minor] :
       {std::pair{7, 5}, {8, 0}, {8, 6}, {8, 7}, {8, 9}, {9, 0}, {10, 0}, {12, 0}})
    EXPECT_EQ(architecture_fault(kAll, major, minor), "") << major << "." << minor;
  EXPECT_EQ(architecture_fault("80", 9, 0), "");
  EXPECT_EQ(architecture_fault("native", 5, 0), "");
  EXPECT_EQ(architecture_fault("", 5, 0), "");
}

TEST(Architectures, AnOlderGpuIsRefusedInASentence) {
  for (auto [major, minor] : {std::pair{6, 1}, {7, 0}, {7, 2}}) {
    const std::string fault = architecture_fault(kAll, major, minor);
    EXPECT_NE(fault.find("older than any that this build has code for (7.5 and newer)"),
              std::string::npos)
        << fault;
    EXPECT_NE(fault.find("set device: cpu"), std::string::npos) << fault;
  }
}

TEST(Architectures, ANewerGpuNeedsPtxOrCodeOfItsOwn) {
  EXPECT_NE(architecture_fault("75-real,80-real", 9, 0), "");
  EXPECT_NE(architecture_fault("86-real", 8, 0), "");  // machine code excludes older minors
  EXPECT_EQ(architecture_fault("80-virtual", 12, 0), "");
  EXPECT_NE(architecture_fault("90-real", 10, 0).find("-DCMAKE_CUDA_ARCHITECTURES=100"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
