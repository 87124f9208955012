// Shared libraries as the loader of this process sees them: for reports of what is installed twice,
// lacking, or not what was expected.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Where the loader looks, in its order, as far as it tells: run path of the program,
// LD_LIBRARY_PATH, folders of the system. Each once.
std::vector<std::string> library_folders();
// Files of that name there and in the folders `besides`, the first is the one that is taken. A
// file that several links name stands here once.
std::vector<std::string> library_copies(std::string_view name,
                                        const std::vector<std::string>& besides = {});
// The file that a library of that name was loaded from; empty where none is loaded.
std::string loaded_library(const std::string& name);
// Every file that is mapped into this process as a library.
std::vector<std::string> loaded_libraries();
// The run path written into the program: "/usr/local/cuda/lib64:..."; empty where there is none.
std::string program_run_path();

// One that the product stands on.
struct LibraryVersion {
  std::string name, built, running;
};
// Of those that tell both, apart from CUDA's.
std::vector<LibraryVersion> library_versions();

}  // namespace tessera
