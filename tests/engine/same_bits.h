// SameBits: a suite whose tests record() results. Each test runs again in other processes, which
// may use AVX2 at most (TESSERA_MAX_ISA) and, if the processor has VDPBF16PS, AVX-512 without it,
// or with it where this process has none; all must record the same bits. Skipped unless the
// processor has AVX-512.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/runtime/files/sha256.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

class SameBits : public testing::Test {
 protected:
  // `what` names the values in a failure.
  template <class T>
  void record(const std::string& what, const std::vector<T>& values) {
    Sha256 sum;
    sum.add(std::as_bytes(std::span(values)));
    lines_.push_back(fmt::format("{} {}", what, sum.digest().substr(0, 16)));
  }

  void SetUp() override {
    if (!std::getenv(kRecordTo) && current_isa() < Isa::avx512)
      GTEST_SKIP() << "the processor has no AVX-512";
  }

  void TearDown() override {
    if (IsSkipped() || HasFatalFailure()) return;
    if (const char* file = std::getenv(kRecordTo)) {
      std::ofstream out(file);
      for (const std::string& line : lines_) out << line << '\n';
      return;
    }
    compare_with("avx2");
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512bf16")) return;
    compare_with(current_isa() == Isa::avx512 ? "avx512_bf16" : "avx512");
#endif
  }

 private:
  static constexpr const char* kRecordTo = "TESSERA_RECORD_BITS";

  void compare_with(const char* isa) const {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = fmt::format("{}.{}", test.test_suite_name(), test.name());
    const std::string file = fmt::format("{}{}{}", testing::TempDir(), name, ::getpid());
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command = fmt::format(
        "TESSERA_MAX_ISA={} {}='{}' '{}' --gtest_filter='{}' --gtest_output= > /dev/null", isa,
        kRecordTo, file, program, name);
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    std::ifstream in(file);
    size_t count = 0, differ = 0;
    for (std::string line; std::getline(in, line); ++count) {
      ASSERT_LT(count, lines_.size());
      if (line == lines_[count] || ++differ > 5) continue;
      ADD_FAILURE() << isa << ": " << line << "\nhere: " << lines_[count];
    }
    std::filesystem::remove(file);
    EXPECT_EQ(count, lines_.size());
    EXPECT_EQ(differ, 0u) << "of " << count;
    EXPECT_GT(count, 0u);
  }

  std::vector<std::string> lines_;
};

}  // namespace tessera
