#include "tessera/models/run/profile_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/prepare.h"
#include "tessera/graph/graph.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

// The measured and the roofline time of some ops.
struct Times {
  double measured = 0, roofline = 0;
  void add(const Times& more) {
    measured += more.measured;
    roofline += more.roofline;
  }
  double ratio() const { return roofline > 0 ? measured / roofline : 1; }
};

// Ops of one kind: for each, its position (operations and bytes, in octaves) and its ratio of
// measured to roofline time. The ratio depends on the position, because of caches and registers.
class Samples {
 public:
  void add(const Cost& cost, double ratio) { all_.push_back({position_of(cost), std::log(ratio)}); }

  // Returns the mean of the nearest samples, weighted by proximity.
  double ratio(const Cost& cost) const {
    constexpr size_t kNearest = 3;
    constexpr double kSame = 0.02;  // two samples closer than this count alike
    std::array<std::pair<double, double>, kNearest> nearest;  // (squared distance, log ratio)
    nearest.fill({HUGE_VAL, 0});
    const Position position = position_of(cost);
    for (const Sample& sample : all_) {
      double apart = 0;
      for (size_t i = 0; i < position.size(); ++i)
        apart += (position[i] - sample.position[i]) * (position[i] - sample.position[i]);
      if (apart >= nearest.back().first) continue;
      nearest.back() = {apart, sample.log_ratio};
      std::ranges::sort(nearest);
    }
    double sum = 0, weights = 0;
    for (const auto& [apart, log_ratio] : nearest) {
      const double weight = 1 / (apart + kSame);
      sum += weight * log_ratio;
      weights += weight;
    }
    return std::exp(sum / weights);
  }

 private:
  using Position = std::array<double, 3>;
  struct Sample {
    Position position;
    double log_ratio;
  };

  static Position position_of(const Cost& cost) {
    const auto octave = [](int64_t amount) {
      constexpr double kSmall = 64;  // amounts below it are not distinguished
      return std::log2(static_cast<double>(amount) + kSmall);
    };
    return {octave(cost.flops), octave(cost.bytes_read), octave(cost.bytes_written)};
  }

  std::vector<Sample> all_;
};

class ProfileCosts final : public CostModel {
 public:
  explicit ProfileCosts(const Json& root) {
    const std::string format = root["format"].string();
    if (format == kMachineFormat)
      for (const Json& profile : root["profiles"].items()) add(profile);
    else
      add(root);
    if (ops_.empty()) throw Error("it has no ops");
  }

  int64_t nanoseconds(const Graph& graph, const Node& node) const override {
    const Specs in = graph.input_specs(node);
    const Cost cost = node.op->cost(in);
    return std::max<int64_t>(  // at least 1: an op without cost could be repeated endlessly
        1, std::llround(ratio(graph, node, in, cost) *
                        static_cast<double>(roofline_.nanoseconds(cost))));
  }

 private:
  void add(const Json& profile) {
    require_format(profile, kProfileFormat);
    for (const Json& op : profile["ops"].items()) {
      const std::string name = op["op"].string();
      const Cost cost{op["flops"].integer(), op["bytes_read"].integer(),
                      op["bytes_written"].integer()};
      const Times times{1000 * std::max(op["us"]["median"].number(), 1e-3),
                        static_cast<double>(roofline_.nanoseconds(cost))};
      ops_[key(name, op["module_path"].string(), op["phase"].string(), cost)].add(times);
      kinds_[kind(name, op["algorithm"].string())].add(cost, times.ratio());
      all_.add(times);
    }
  }

  double ratio(const Graph& graph, const Node& node, const Specs& in, const Cost& cost) const {
    const std::string name = std::string(node.op->name()) + (node.recomputed ? " recomputed" : "");
    const std::string there = key(name, location_of(graph, node), phase_name(node.phase), cost);
    if (const auto op = ops_.find(there); op != ops_.end()) return op->second.ratio();
    const Algorithm chosen = choose_algorithm(*node.op, in, context(node.device).target());
    const auto like = kinds_.find(kind(std::string(node.op->name()), std::string(chosen.name)));
    return like != kinds_.end() ? like->second.ratio(cost) : all_.ratio();
  }

  static std::string key(const std::string& op, const std::string& module_path,
                         const std::string& phase, const Cost& cost) {
    return fmt::format("{}\n{}\n{}\n{} {} {}", op, module_path, phase, cost.flops, cost.bytes_read,
                       cost.bytes_written);
  }
  static std::string kind(const std::string& op, const std::string& algorithm) {
    return op + "\n" + algorithm;
  }

  const RooflineCosts roofline_;
  std::map<std::string, Times> ops_;
  std::map<std::string, Samples> kinds_;
  Times all_;
};

}  // namespace

std::shared_ptr<const CostModel> profile_costs(const std::string& text, const std::string& name) {
  try {
    return std::make_shared<ProfileCosts>(Json::parse(text));
  } catch (const Error& error) {
    throw DataError(
        fmt::format("memory.cost_model: {}: is not a profile of `trainer profile --json`: {}", name,
                    error.what()));
  }
}

std::shared_ptr<const CostModel> make_cost_model(const std::string& name) {
  if (name == "roofline") return std::make_shared<RooflineCosts>();
  std::ifstream file(name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    throw DataError(fmt::format(
        "memory.cost_model: cannot read '{0}'; set roofline, or write a profile: trainer profile "
        "--machine > {0}{1}",
        name, relative_path_help(name)));
  return profile_costs(text.str(), name);
}

}  // namespace tessera
