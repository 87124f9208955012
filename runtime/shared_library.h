// Shared libraries as the loader of this process finds them, for reports of duplicate, missing or
// unexpected ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Returns the loader's search path in order, without duplicates, as far as the loader reports it:
// run path of the program, LD_LIBRARY_PATH, system folders. If `library` is the file of a loaded
// library, returns the search path for its dependencies.
std::vector<std::string> library_folders(const std::string& library = "");
// Returns the files of that name in library_folders(library), then in `besides`; the loader takes
// the first. Links to one file are listed once.
std::vector<std::string> library_copies(std::string_view name,
                                        const std::vector<std::string>& besides = {},
                                        const std::string& library = "");
// Returns "ends after 2 of 4 MiB" if the file is shorter than its ELF header says, else "". Loading
// such a library ends the process (SIGBUS).
std::string cut_off_text(const std::string& file);

// The result of loading a library in a child process, which a damaged library may end.
struct LibraryTrial {
  std::string fault;  // why it cannot be loaded, or how the child ended; empty if it was loaded
  int value = 0;      // value of the requested variable
};
// Loads `file` in a child process, after `first` unless that is empty, and reads the library's int
// variable of that name. Costs a fork: for reports and failures, not for a step.
LibraryTrial try_library(const std::string& file, const std::string& first = "",
                         const std::string& variable = "");
// Returns the file of a loaded library; empty if none of that name is loaded.
std::string loaded_library(const std::string& name);
// Returns the run path of the program: "/usr/local/cuda/lib64:..."; empty if it has none.
std::string program_run_path();
// Returns the program's build id, 40 hexadecimal digits; empty if the linker made none. Another
// build has another id.
std::string program_build_id();

}  // namespace tessera
