#include "tessera/memory/planner_library.h"

#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// The functions of a list by name (plan.h, recompute.h).
template <class Made>
struct Registry {
  bool (*add)(const Made&);
  const Made* (*find)(std::string_view name);
  std::string (*names)();
};

// Adds the result of the function `symbol` of the library, which `macro` defined.
template <class Made>
const Made& load(const std::string& path, const char* symbol, const char* what, const char* macro,
                 const Registry<Made>& registry) {
  // Without a slash, dlopen would search the system's folders.
  void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw ConfigError(fmt::format("{} library {}: cannot be loaded: {}", what, path, dlerror()));
  auto make = reinterpret_cast<const Made* (*)()>(dlsym(library, symbol));
  if (make == nullptr)
    throw ConfigError(fmt::format(
        "{0} library {1}: has no {0} for this version; end its source with {2} and rebuild it",
        what, path, macro));
  const Made& made = *make();
  if (!registry.add(made) && registry.find(made.name()) != &made)
    throw ConfigError(
        fmt::format("{0} library {1}: a {0} '{2}' already exists; choose a name other than {3}",
                    what, path, made.name(), registry.names()));
  return made;
}

}  // namespace

const Planner& load_planner(const std::string& path) {
  return load<Planner>(path, "tessera_planner_1", "planner", "TESSERA_PLANNER(YourPlanner)",
                       {add_planner, find_planner, planner_names});
}

const RecomputeStrategy& load_recompute_strategy(const std::string& path) {
  return load<RecomputeStrategy>(
      path, "tessera_recompute_1", "strategy", "TESSERA_RECOMPUTE(YourStrategy)",
      {add_recompute_strategy, find_recompute_strategy, recompute_strategy_names});
}

}  // namespace tessera
