#include "tessera/models/training/summary.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/storage.h"
#include "tessera/graph/graph.h"

namespace tessera {
namespace {

struct Row {
  std::string module_path, ops, output;
  int64_t parameters = 0;
};

// "layer1.0.conv1" of "layer1.0.conv1.weight".
std::string place_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

// The first `depth` names of a place.
std::string_view shortened(std::string_view module_path, int depth) {
  size_t end = 0;
  for (int i = 0; i < depth && end != module_path.npos; ++i)
    end = module_path.find('.', end == 0 ? 0 : end + 1);
  return module_path.substr(0, end);
}

// Each op once.
void add_op(Row& row, const std::string& op) {
  constexpr size_t kMax = 60;
  if ((", " + row.ops + ",").find(", " + op + ",") != row.ops.npos) return;
  if (row.ops.size() + op.size() > kMax) {
    if (!row.ops.ends_with("...")) row.ops += ", ...";
    return;
  }
  if (!row.ops.empty()) row.ops += ", ";
  row.ops += op;
}

}  // namespace

std::string model_summary(const Graph& graph, const Tensors& parameters, int depth) {
  std::map<std::string, int64_t> counts;
  int64_t total = 0, bytes = 0;
  for (const Tensor& parameter : parameters) {
    const std::string module_path = place_of(parameter.impl()->storage->name);
    counts[std::string(shortened(module_path, depth))] += parameter.shape().elements();
    total += parameter.shape().elements();
    bytes += static_cast<int64_t>(parameter.spec().bytes());
  }
  std::vector<Row> rows;
  std::map<std::string, int> again;
  for (const Node& s : graph.nodes)
    if (s.again) ++again[std::string(shortened(s.module_path, depth))];
  for (const Node& s : graph.nodes) {
    if (s.phase != Phase::forward || s.again) continue;
    const std::string at(shortened(s.module_path, depth));
    if (rows.empty() || rows.back().module_path != at) {
      rows.push_back({at, "", "", 0});
      const auto count = counts.find(at);
      if (count != counts.end()) rows.back().parameters = std::exchange(count->second, 0);
    }
    add_op(rows.back(), std::string(s.op->name()));
    for (ValueId id : s.outputs) {  // an update hands nothing on, nor do statistics
      const Value& value = graph.values[id];
      if (value.role == Role::computed && id == s.outputs[0])
        rows.back().output = value.spec.text();
    }
  }
  size_t module_path = 5, ops = 3, output = 6;
  for (const Row& row : rows) {
    module_path = std::max(module_path, row.module_path.size());
    ops = std::max(ops, row.ops.size());
    output = std::max(output, row.output.size());
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>12}\n", "place", module_path, "ops",
                                 ops, "output", output, "parameters");
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>12}", row.module_path, module_path, row.ops,
                        ops, row.output, output,
                        row.parameters > 0 ? fmt::format("{}", row.parameters) : "");
    if (const int steps = std::exchange(again[row.module_path], 0); steps > 0)
      text += fmt::format("  {} again", steps);
    text += "\n";
  }
  return text + fmt::format("{} parameters in {} tensors, {:.2f} MiB\n", total, parameters.size(),
                            static_cast<double>(bytes) / (1 << 20));
}

}  // namespace tessera
