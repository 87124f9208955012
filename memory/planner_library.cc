#include "tessera/memory/planner_library.h"

#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Calls the function `symbol` of the library, which `macro` defined.
template <class Made>
const Made& make(const std::string& path, const char* symbol, const char* what, const char* macro) {
  // Without a slash, dlopen would search the system's folders.
  void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw ConfigError(fmt::format("{} library {}: cannot be loaded: {}", what, path, dlerror()));
  using Make = const Made* (*)();
  auto made = reinterpret_cast<Make>(dlsym(library, symbol));
  if (made == nullptr)
    throw ConfigError(fmt::format(
        "{0} library {1}: has no {0} for this version; end its source with {2} and rebuild it",
        what, path, macro));
  return *made();
}

[[noreturn]] void refuse_name(const std::string& path, const char* what, std::string_view name,
                              const std::string& known) {
  throw ConfigError(
      fmt::format("{0} library {1}: a {0} '{2}' already exists; choose a name other than {3}", what,
                  path, name, known));
}

}  // namespace

const Planner& load_planner(const std::string& path) {
  const auto& planner =
      make<Planner>(path, "tessera_planner_1", "planner", "TESSERA_PLANNER(YourPlanner)");
  if (!add_planner(planner) && find_planner(planner.name()) != &planner)
    refuse_name(path, "planner", planner.name(), planner_names());
  return planner;
}

const RecomputeStrategy& load_recompute_strategy(const std::string& path) {
  const auto& strategy = make<RecomputeStrategy>(path, "tessera_recompute_1", "strategy",
                                                 "TESSERA_RECOMPUTE(YourStrategy)");
  if (!add_recompute_strategy(strategy) && find_recompute_strategy(strategy.name()) != &strategy)
    refuse_name(path, "strategy", strategy.name(), recompute_strategy_names());
  return strategy;
}

}  // namespace tessera
