#include "tessera/models/zoo/names/name_tables.h"

#include <algorithm>
#include <functional>
#include <map>

#include "tessera/models/zoo/networks.h"

namespace tessera {

namespace {

bool is_within(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

bool is_within_any(std::string_view name, const std::vector<std::string>& modules) {
  return std::ranges::any_of(modules, [&](const auto& module) { return is_within(name, module); });
}

}  // namespace

std::string NameTable::theirs(std::string_view ours) const {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& entry : modules)
    if (is_within(ours, entry.first) &&
        (best == nullptr || best->first.size() < entry.first.size()))
      best = &entry;
  if (best == nullptr) return std::string(ours);
  return best->second + std::string(ours.substr(best->first.size()));
}

bool NameTable::is_unused(std::string_view theirs) const { return is_within_any(theirs, unused); }

bool NameTable::is_linear(std::string_view ours) const { return is_within_any(ours, linear); }

const std::vector<NameTable>& name_tables(std::string_view network) {
  static const auto all = [] {
    std::map<std::string, std::vector<NameTable>, std::less<>> known;
    for (const Network& one : networks()) {
      std::vector<NameTable>& tables = known[one.name] = one.tables;
      for (NameTable& table : tables) {
        if (table.network.empty()) table.network = one.name;
        if (table.add_modules) table.add_modules(table);
      }
    }
    return known;
  }();
  static const std::vector<NameTable> none;
  const auto found = all.find(network);
  return found == all.end() ? none : found->second;
}

}  // namespace tessera
