#include "tessera/graph/graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

std::vector<Device> Graph::devices() const {
  std::vector<Device> devices;
  for (const Value& value : values) devices.push_back(value.spec.device);
  for (const Node& node : nodes) devices.push_back(node.device);
  if (devices.empty()) devices.push_back({});
  std::ranges::sort(devices, {}, [](Device d) { return std::pair(d.is_cpu(), d.index); });
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

Specs Graph::input_specs(const Node& node) const {
  Specs specs;
  specs.reserve(node.inputs.size());
  for (ValueId id : node.inputs) specs.push_back(values[id].spec);
  return specs;
}

void Graph::index() {
  for (Value& value : values) value.producer = -1;
  for (size_t s = 0; s < nodes.size(); ++s) {
    for (size_t o = 0; o < nodes[s].outputs.size(); ++o) {
      values[nodes[s].outputs[o]].producer = static_cast<int>(s);
      values[nodes[s].outputs[o]].output = static_cast<int>(o);
    }
  }
}

std::vector<std::vector<int>> Graph::users() const {
  std::vector<std::vector<int>> users(values.size());
  const auto add = [&](ValueId id, size_t s) {
    if (users[id].empty() || users[id].back() != static_cast<int>(s))
      users[id].push_back(static_cast<int>(s));
  };
  for (size_t s = 0; s < nodes.size(); ++s)
    for (ValueId id : nodes[s].inputs) add(id, s);
  for (ValueId id : outputs) add(id, nodes.size());
  return users;
}

std::vector<ValueId> Graph::roots() const {
  std::vector<ValueId> roots(values.size());
  for (size_t id = 0; id < values.size(); ++id) roots[id] = static_cast<ValueId>(id);
  for (const Node& node : nodes) {
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      int view = node.op->view_of(static_cast<int>(o));
      if (view >= 0) roots[node.outputs[o]] = roots[node.inputs[view]];
    }
  }
  return roots;
}

std::string Graph::value_text(ValueId id) const {
  const Value& value = values[id];
  return value.name.empty() ? fmt::format("%{}", id) : fmt::format("%{}:{}", id, value.name);
}

std::string Graph::value_and_spec(ValueId id) const {
  return fmt::format("{} {}", value_text(id), values[id].spec.text());
}

std::string Graph::text() const {
  const auto listed = [this](const std::vector<ValueId>& ids) {
    std::string list;
    for (ValueId id : ids) list += (list.empty() ? "" : ", ") + value_text(id);
    return list;
  };
  std::string text;
  for (ValueId id : inputs)
    text += fmt::format("{} = input {}\n", value_text(id), values[id].spec.text());
  for (const Node& node : nodes) {
    std::string specs;
    for (ValueId id : node.outputs) specs += (specs.empty() ? "" : ", ") + values[id].spec.text();
    text += fmt::format("{} = {}({}) {}{}{}{}\n", listed(node.outputs), node.op->name(),
                        listed(node.inputs), specs, node.module_path.empty() ? "" : " ",
                        node.module_path, node.recomputed ? " recomputed" : "");
  }
  return text + "return" + (outputs.empty() ? "" : " ") + listed(outputs) + "\n";
}

bool Node::is_update() const {
  for (size_t o = 0; o < outputs.size(); ++o)
    if (op->updates(static_cast<int>(o)) >= 0) return true;
  return false;
}

bool Node::only_views() const {
  for (size_t o = 0; o < outputs.size(); ++o)
    if (op->view_of(static_cast<int>(o)) < 0) return false;
  return true;
}

std::string location_of(const Graph& graph, const Node& node) {
  if (!node.module_path.empty()) return node.module_path;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (node.op->updates(static_cast<int>(i)) >= 0) return graph.values[node.outputs[i]].name;
  return "";
}

const char* phase_name(Phase phase) {
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<size_t>(phase)];
}

std::string Graph::node_text(size_t node) const {
  const Node& n = nodes[node];
  return fmt::format("node {} ({})", node, op_at(n.op->name(), n.module_path));
}

namespace {

std::string verify_node(const Graph& graph, size_t s, const std::vector<ValueId>& roots,
                        std::vector<bool>& made, std::vector<bool>& overwritten) {
  const Node& node = graph.nodes[s];
  auto fault = [&](const std::string& what) {
    return fmt::format("{}: {}", graph.node_text(s), what);
  };
  for (ValueId id : node.inputs) {
    if (id < 0 || id >= static_cast<ValueId>(graph.values.size()))
      return fault(fmt::format("reads value {}, which does not exist", id));
    if (!made[id])
      return fault(fmt::format("reads {} before it is computed", graph.value_text(id)));
    if (overwritten[roots[id]])
      return fault(fmt::format("reads {} after it was overwritten", graph.value_text(id)));
  }
  Specs specs = node.op->infer(graph.input_specs(node));
  if (specs.size() != node.outputs.size())
    return fault(
        fmt::format("has {} outputs, but the op returns {}", node.outputs.size(), specs.size()));
  for (size_t o = 0; o < specs.size(); ++o) {
    ValueId id = node.outputs[o];
    const Value& value = graph.values[id];
    specs[o].device = node.device;
    if (value.spec != specs[o])
      return fault(fmt::format("{} is {}, but the op returns {}", graph.value_text(id),
                               value.spec.text(), specs[o].text()));
    if (made[id]) return fault(fmt::format("{} is computed twice", graph.value_text(id)));
    if (value.producer != static_cast<int>(s) || value.output != static_cast<int>(o))
      return fault(fmt::format("the recorded producer of {} is wrong", graph.value_text(id)));
    int updates = node.op->updates(static_cast<int>(o));
    if (updates >= 0) {
      ValueId old = node.inputs[updates];
      if (!graph.values[old].persistent() || value.previous != old)
        return fault(fmt::format("updates {}, which is not persistent", graph.value_text(old)));
      overwritten[old] = true;
    }
  }
  for (ValueId id : node.outputs) made[id] = true;
  return "";
}

}  // namespace

std::string verify(const Graph& graph) {
  std::vector<bool> made(graph.values.size(), false), overwritten(graph.values.size(), false);
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    bool given = value.role != Role::intermediate && value.previous < 0;
    made[id] = given;
    bool stored =
        value.persistent() || value.role == Role::external || value.role == Role::constant;
    if (stored && value.storage == nullptr)
      return fmt::format("value {} has no storage", graph.value_text(static_cast<ValueId>(id)));
  }
  std::vector<ValueId> roots = graph.roots();
  for (size_t s = 0; s < graph.nodes.size(); ++s) {
    std::string fault = verify_node(graph, s, roots, made, overwritten);
    if (!fault.empty()) return fault;
  }
  for (ValueId id : graph.outputs)
    if (!made[id] || overwritten[roots[id]])
      return fmt::format("output {} has no value at the end", graph.value_text(id));
  return "";
}

}  // namespace tessera
