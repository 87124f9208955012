#include "tessera/memory/planner_library.h"

#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

const Planner& load_planner(const std::string& path) {
  // Without a slash, dlopen would look in the system's folders.
  void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw ConfigError(fmt::format("planner library {}: it cannot be loaded: {}", path, dlerror()));
  using Make = const Planner* (*)();
  auto make = reinterpret_cast<Make>(dlsym(library, "tessera_planner_1"));
  if (make == nullptr)
    throw ConfigError(
        fmt::format("planner library {}: it has no planner for this version; end its "
                    "source with TESSERA_PLANNER(YourPlanner) and build it again",
                    path));
  const Planner& planner = *make();
  if (!add_planner(planner) && find_planner(planner.name()) != &planner)
    throw ConfigError(
        fmt::format("planner library {}: there is a planner '{}' already; known are "
                    "{}",
                    path, planner.name(), planner_names()));
  return planner;
}

}  // namespace tessera
