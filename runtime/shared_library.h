// Shared libraries as the loader of this process sees them: for reports of what is installed twice,
// lacking, or not what was expected.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Where the loader looks, in its order, as far as it tells: run path of the program,
// LD_LIBRARY_PATH, folders of the system. Each once. With the file of a loaded library: where the
// loader looks for what that library loads.
std::vector<std::string> library_folders(const std::string& library = "");
// Files of that name in library_folders(library) and in the folders `besides`, the first is the one
// that is taken. A file that several links name stands here once.
std::vector<std::string> library_copies(std::string_view name,
                                        const std::vector<std::string>& besides = {},
                                        const std::string& library = "");
// Returns "ends after 2 of 4 MiB" if the file is shorter than its ELF header says: loading such a
// library ends the process (SIGBUS). Returns "" for every other file.
std::string cut_off_text(const std::string& file);

// What a library said in a child process, which a damaged library may end.
struct LibraryTrial {
  std::string fault;  // why it cannot be loaded, or how the child ended; empty if it was loaded
  int value = 0;      // of the variable that was asked for
};
// Loads `file` in a child process, after `first` if that is not empty, and reads the library's int
// variable of that name. Costs a fork: for reports and failures, not for a step.
LibraryTrial try_library(const std::string& file, const std::string& first = "",
                         const std::string& variable = "");
// The file that a library of that name was loaded from; empty where none is loaded.
std::string loaded_library(const std::string& name);
// The run path written into the program: "/usr/local/cuda/lib64:..."; empty where there is none.
std::string program_run_path();
// The number that the linker gave the program, of all that it consists of: 40 hexadecimal digits;
// empty where it gave none. Another build has another one.
std::string program_build_id();

}  // namespace tessera
