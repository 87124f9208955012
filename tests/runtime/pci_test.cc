// GPUs of all vendors are found on the PCI bus, and unusable ones are named.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/runtime/system_gpus.h"

namespace tessera {
namespace {

class Pci : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("pci-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void put(const std::string& address, const std::string& kind, const std::string& vendor) {
    std::filesystem::create_directories(folder_ / address);
    std::ofstream(folder_ / address / "class") << kind << "\n";
    std::ofstream(folder_ / address / "vendor") << vendor << "\n";
  }
  std::vector<PciGpu> gpus() const { return pci_gpus(folder_.string()); }

  std::filesystem::path folder_;
};

TEST_F(Pci, GpusAreTold) {
  put("0000:41:00.0", "0x030200", "0x10de");
  put("0000:03:00.0", "0x030000", "0x1002");
  put("0000:00:1f.0", "0x060100", "0x8086");  // a bridge
  const std::vector<PciGpu> found = gpus();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].address, "0000:03:00.0");
  EXPECT_EQ(found[0].maker, "AMD");
  EXPECT_EQ(found[1].maker, "NVIDIA");
  EXPECT_EQ(foreign_gpu_text(found),
            "found an AMD GPU at 0000:03:00.0, but only NVIDIA GPUs are supported");
}

TEST_F(Pci, NothingForeignIsSaidOfNvidiasOrOfDisplayChips) {
  EXPECT_EQ(foreign_gpu_text(gpus()), "");
  put("0000:41:00.0", "0x030200", "0x10de");
  put("0000:02:00.0", "0x030000", "0x1a03");
  EXPECT_EQ(gpus().size(), 2u);
  EXPECT_EQ(foreign_gpu_text(gpus()), "");
  EXPECT_TRUE(pci_gpus((folder_ / "none").string()).empty());
}

}  // namespace
}  // namespace tessera
