#include <utility>

#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

class Repeater {
 public:
  explicit Repeater(const Graph& graph)
      : graph_(graph), ran_(graph.nodes.size(), false), views_(graph.nodes.size()) {
    result_.graph.values = graph.values;
    result_.graph.inputs = graph.inputs;
    result_.graph.saved = graph.saved;
    for (size_t id = 0; id < graph.values.size(); ++id)
      current_.push_back(static_cast<ValueId>(id));
  }

  void run(int n) {
    const Node& node = graph_.nodes[n];
    emit(n, current(node.inputs));
    for (size_t o = 0; o < node.outputs.size(); ++o)
      current_[node.outputs[o]] = result_.graph.nodes.back().outputs[o];
  }

  Repeated finish() {
    result_.graph.outputs = current(graph_.outputs);
    result_.graph.index();
    return std::move(result_);
  }

 private:
  std::vector<ValueId> current(const std::vector<ValueId>& ids) {
    std::vector<ValueId> result;
    for (const ValueId id : ids) result.push_back(current(id));
    return result;
  }

  // Returns the latest copy of a value. Makes a view of a new copy on first use.
  ValueId current(ValueId id) {
    const int n = graph_.values[id].producer;
    if (n < 0 || !graph_.nodes[n].only_views()) return current_[id];
    const std::vector<ValueId> inputs = current(graph_.nodes[n].inputs);
    View& view = views_[n];
    if (!ran_[n] || view.inputs != inputs) {
      emit(n, inputs);
      view = {inputs, result_.graph.nodes.back().outputs};
    }
    return view.outputs[graph_.values[id].output];
  }

  void emit(int n, std::vector<ValueId> inputs) {
    Node node = graph_.nodes[n];
    node.inputs = std::move(inputs);
    node.recomputed = ran_[n];
    if (node.recomputed)
      for (ValueId& id : node.outputs) {
        result_.graph.values.push_back(graph_.values[id]);
        id = static_cast<ValueId>(result_.graph.values.size() - 1);
      }
    ran_[n] = true;
    result_.origin.push_back(n);
    result_.graph.nodes.push_back(std::move(node));
  }

  // The latest run of a node that makes views.
  struct View {
    std::vector<ValueId> inputs, outputs;
  };

  const Graph& graph_;
  std::vector<bool> ran_;
  std::vector<View> views_;
  std::vector<ValueId> current_;  // for each value that is not a view
  Repeated result_;
};

}  // namespace

Repeated repeat_nodes(const Graph& graph, const std::vector<int>& nodes) {
  Repeater repeater(graph);
  for (const int n : nodes) repeater.run(n);
  return repeater.finish();
}

}  // namespace tessera
