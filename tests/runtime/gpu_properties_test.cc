// Properties of described devices, in every build.
#include <set>

#include <gtest/gtest.h>

#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(GpuFacts, AProfileTellsWhatItsDescriptionSays) {
  const DeviceProperties& h100 = gpu_profile("h100");
  EXPECT_EQ(&h100, &gpu_profile("H100"));
  EXPECT_EQ(h100.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(h100.major, 9);
  EXPECT_EQ(h100.minor, 0);
  EXPECT_EQ(h100.multiprocessors, 132);
  EXPECT_EQ(h100.memory_bytes, 85024112640);
  EXPECT_TRUE(h100.described());
  EXPECT_EQ(h100.origin, "described by hand, not read off a card");
}

TEST(GpuFacts, EveryGenerationIsDescribed) {
  std::set<int> capabilities;
  for (const std::string& name : gpu_profile_names()) {
    const DeviceProperties& properties = gpu_profile(name);
    capabilities.insert(properties.major * 10 + properties.minor);
    EXPECT_GT(properties.multiprocessors, 0) << name;
    EXPECT_GT(properties.memory_bytes, int64_t{1} << 34) << name;
  }
  for (const int capability : {80, 86, 89, 90, 100, 120})
    EXPECT_TRUE(capabilities.contains(capability)) << capability;
}

TEST(GpuFacts, AnUnknownNameListsThoseThereAre) {
  try {
    gpu_profile("H10");
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("A100, B200, H100, H200"), std::string::npos)
        << error.what();
  }
}

TEST(GpuFacts, ADescriptionThatLacksSomethingIsRefused) {
  EXPECT_THROW(properties_of_description("{\"deviceName\": \"a GPU\"}"), Error);
}

}  // namespace
}  // namespace tessera
