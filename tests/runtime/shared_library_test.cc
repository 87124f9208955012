// What the loader has loaded and where it would look, held against the file system.
#include "tessera/runtime/shared_library.h"

#include <algorithm>
#include <filesystem>

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
  std::filesystem::copy_file("/proc/self/exe", folder / "a" / name);
  std::filesystem::create_symlink(folder / "a" / name, folder / "b" / name);
  std::filesystem::copy_file("/proc/self/exe", folder / "c" / name);
  const std::vector<std::string> copies =
      library_copies(name, {folder / "a", folder / "b", folder / "c", folder / "none"});
  EXPECT_EQ(copies, (std::vector<std::string>{folder / "a" / name, folder / "c" / name}));
  std::filesystem::remove_all(folder);
}

TEST(SharedLibrary, TheProductStandsOnWhatItWasBuiltWith) {
  ASSERT_EQ(library_versions().size(), 3u);
  for (const LibraryVersion& library : library_versions())
    EXPECT_EQ(library.built, library.running) << library.name;
}

}  // namespace
}  // namespace tessera
