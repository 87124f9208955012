// Compares the loaded libraries, and the loader's search path, with the file system.
#include "tessera/runtime/shared_library.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(SharedLibrary, ALoadedOneHasAFileOnThePath) {
  const std::string file = loaded_library("libc.so.6");
  ASSERT_FALSE(file.empty());
  const std::vector<std::string> copies = library_copies("libc.so.6");
  EXPECT_TRUE(std::any_of(copies.begin(), copies.end(), [&](const std::string& copy) {
    return std::filesystem::equivalent(copy, file);
  })) << file;
  EXPECT_EQ(loaded_library("libnobody_has.so.9"), "");
}

TEST(SharedLibrary, CopiesAreListedOnceEachWhateverNamesThem) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "copies";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_directories(folder / "b");
  std::filesystem::create_directories(folder / "c");
  const char* const name = "libtessera_test.so.1";
  std::ofstream(folder / "a" / name) << "one";
  std::filesystem::create_symlink(folder / "a" / name, folder / "b" / name);
  std::ofstream(folder / "c" / name) << "another";
  const std::vector<std::string> copies =
      library_copies(name, {folder / "a", folder / "b", folder / "c", folder / "none"});
  EXPECT_EQ(copies, (std::vector<std::string>{folder / "a" / name, folder / "c" / name}));
  std::filesystem::remove_all(folder);
}

TEST(SharedLibrary, ACutOffFileIsToldFromAWholeOne) {
  const std::string whole = loaded_library("libstdc++.so.6");
  const std::string cut = testing::TempDir() + "cut_off.so", text = testing::TempDir() + "text.so";
  std::filesystem::copy_file(whole, cut, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(cut_off_text(whole), "");
  EXPECT_EQ(cut_off_text(cut), "");
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  EXPECT_EQ(cut_off_text(cut).rfind("ends after ", 0), 0u) << cut_off_text(cut);
  std::ofstream(text) << "not a library";
  EXPECT_EQ(cut_off_text(text), "");
  EXPECT_EQ(cut_off_text(testing::TempDir() + "none.so"), "");
  std::filesystem::remove(cut);
  std::filesystem::remove(text);
}

TEST(SharedLibrary, ALibraryIsTriedInAChildProcess) {
  const std::string cut = testing::TempDir() + "tried.so", whole = loaded_library("libstdc++.so.6");
  EXPECT_EQ(try_library(whole).fault, "");
  EXPECT_NE(try_library("libnobody_has.so.9").fault.find("libnobody_has.so.9"), std::string::npos);
  std::filesystem::copy_file(whole, cut, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(cut, 8192);
  EXPECT_NE(try_library(cut).fault, "");
  EXPECT_NE(try_library(whole, "", "optind").value, 0);  // found in a dependency
  std::filesystem::remove(cut);
}

}  // namespace
}  // namespace tessera
