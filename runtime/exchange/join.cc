#include "tessera/runtime/exchange/join.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr const char* kModule = "libtessera_mpi.so";

// Returns the installed module of MPI, or that of a build, beside the program.
std::filesystem::path module_path() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto installed = folder / "../lib/tessera" / kModule;
  return std::filesystem::exists(installed, error) ? installed : folder / kModule;
}

template <class F>
F* function(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

// Returns the number of processes that mpirun or srun says it started; 1 if neither did.
int started_processes() {
  // Open MPI; MPICH, Intel MPI and srun --mpi=pmi2; srun.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* value = std::getenv(name); value != nullptr && std::atoi(value) > 0)
      return std::atoi(value);
  return 1;
}

}  // namespace

void require_one_process(const char* command) {
  if (const int started = started_processes(); started > 1)
    throw ConfigError(
        fmt::format("{0}: {1} processes were started, but {0} runs in one; start it without mpirun "
                    "or srun",
                    command, started));
}

std::shared_ptr<Exchange> join_processes(double timeout) {
  const int started = started_processes();
  if (started == 1) return nullptr;
  const std::string path = module_path().string();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw ConfigError(
        fmt::format("mpirun: {} processes were started, but this build cannot join them ({}); "
                    "build where MPI is "
                    "installed (on Debian: libopenmpi-dev), or start the program alone",
                    started, dlerror()));
  auto* make = function<Transport*()>(library, "tessera_mpi_transport");
  auto* version = function<const char*()>(library, "tessera_mpi_version");
  if (make == nullptr || version == nullptr)
    throw ConfigError(fmt::format("mpirun: '{}' is not of this version", path));
  auto exchange =
      std::make_shared<Exchange>([&] { return std::unique_ptr<Transport>(make()); }, timeout);
  if (exchange->size() != started)
    throw ConfigError(fmt::format(
        "mpirun: {} processes were started, but {} finds {}; start them with the mpirun of the MPI "
        "that this program was built with ({})",
        started, kModule, exchange->size(), version()));
  return exchange;
}

}  // namespace tessera
