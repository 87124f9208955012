#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "tessera/graph/plan_report.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

struct Life {
  int64_t bytes = 0, nodes = 0;
  bool operator==(const Life&) const = default;
};

struct PlanFile {
  std::map<std::string, int64_t> sizes;
  std::map<std::string, Life> tensors;  // by name and module path; duplicates are numbered
};

PlanFile read(const std::string& text, const std::string& name) {
  PlanFile file;
  try {
    const Json root = Json::parse(text);
    require_format(root, kPlanFormat);
    for (const char* key : {"total_bytes", "arena_bytes", "lower_bound_bytes", "unplanned_bytes",
                            "persistent_bytes", "slot_bytes", "tensors", "nodes"})
      file.sizes[key] = root[key].integer();
    for (const auto& [name, bytes] : root["classes"].members())
      file.sizes["class " + name] = bytes.integer();
    std::map<std::string, int> seen;
    for (const Json& block : root["blocks"].items()) {
      // Without "%12 ": ids change when a node is added before.
      std::string title = block["name"].string();
      if (title.starts_with('%')) title = title.substr(std::min(title.find(' ') + 1, title.size()));
      title = fmt::format("{} {}", title, block["module_path"].string());
      if (const int n = seen[title]++; n > 0) title = fmt::format("{} ({})", title, n + 1);
      file.tensors[title] = {block["bytes"].integer(),
                             block["upper"].integer() - block["lower"].integer()};
    }
  } catch (const Error& error) {
    throw ConfigError(
        fmt::format("{}: is not a plan of `trainer plan --json`: {}", name, error.what()));
  }
  return file;
}

struct Change {
  int64_t weight;
  std::string text;
};

void add_tensors(const PlanFile& a, const PlanFile& b, std::vector<Change>& changes) {
  for (const auto& [name, life] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) {
      changes.push_back({life.bytes, fmt::format("- {} bytes  {}", life.bytes, name)});
    } else if (other->second != life) {
      const Life& now = other->second;
      changes.push_back({std::abs(now.bytes - life.bytes),
                         fmt::format("~ {} -> {} bytes, {} -> {} nodes  {}", life.bytes, now.bytes,
                                     life.nodes, now.nodes, name)});
    }
  }
  for (const auto& [name, life] : b.tensors) {
    if (a.tensors.contains(name)) continue;
    changes.push_back({life.bytes, fmt::format("+ {} bytes  {}", life.bytes, name)});
  }
}

}  // namespace

std::string diff_plans(const std::string& a, const std::string& name_a, const std::string& b,
                       const std::string& name_b) {
  const PlanFile before = read(a, name_a), after = read(b, name_b);
  std::string text;
  std::map<std::string, int64_t> keys = before.sizes;
  keys.insert(after.sizes.begin(), after.sizes.end());
  for (const auto& entry : keys) {
    const std::string& key = entry.first;
    const auto value = [&](const PlanFile& file) {
      const auto at = file.sizes.find(key);
      return at == file.sizes.end() ? 0 : at->second;
    };
    const int64_t from = value(before), to = value(after);
    if (from != to)
      text += fmt::format("{:<20} {:>14} -> {:>14}  {:+}\n", key, from, to, to - from);
  }
  std::vector<Change> changes;
  add_tensors(before, after, changes);
  std::ranges::stable_sort(changes, std::greater(), &Change::weight);
  if (!changes.empty()) text += "\n";
  for (const Change& change : changes) text += change.text + "\n";
  return text.empty() ? fmt::format("{} and {} are the same plan\n", name_a, name_b) : text;
}

}  // namespace tessera
