#include "tessera/models/training/profile_costs.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "tessera/graph/graph.h"
#include "tessera/models/training/profile.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

// Measured and counted time of some ops.
struct Times {
  double measured = 0, counted = 0;
  void add(const Times& more) {
    measured += more.measured;
    counted += more.counted;
  }
  double ratio() const { return counted > 0 ? measured / counted : 1; }
};

class ProfileCosts final : public StepCosts {
 public:
  explicit ProfileCosts(const Json& root) {
    if (const std::string format = root["format"].string(); format != kProfileFormat)
      throw Error(
          fmt::format("its format is '{}', not '{}'; write it anew", format, kProfileFormat));
    for (const Json& op : root["ops"].items()) {
      const std::string name = op["op"].string();
      const Cost cost{op["flops"].integer(), op["bytes_read"].integer(),
                      op["bytes_written"].integer()};
      const Times times{1000 * op["us"]["median"].number(),
                        static_cast<double>(counted_.nanoseconds(cost))};
      const std::string there = key(name, op["place"].string(), op["phase"].string());
      ops_[key(there, cost)].add(times);
      places_[there].add(times);
      kinds_[name].add(times);
      all_.add(times);
    }
    if (ops_.empty()) throw Error("it has no ops");
  }

  int64_t nanoseconds(const Graph& graph, const Node& node) const override {
    const Cost cost = node.op->cost(graph.input_specs(node));
    const std::string name = std::string(node.op->name()) + (node.again ? " again" : "");
    const std::string there = key(name, place_of(graph, node), phase_name(node.phase));
    const Times* like = &all_;
    if (const auto op = ops_.find(key(there, cost)); op != ops_.end())
      like = &op->second;
    else if (const auto place = places_.find(there); place != places_.end())
      like = &place->second;
    else if (const auto kind = kinds_.find(name); kind != kinds_.end())
      like = &kind->second;
    return whole(like->ratio() * static_cast<double>(counted_.nanoseconds(cost)));
  }

 private:
  static std::string key(const std::string& op, const std::string& place,
                         const std::string& phase) {
    return op + "\n" + place + "\n" + phase;
  }
  static std::string key(const std::string& there, const Cost& cost) {
    return fmt::format("{}\n{} {} {}", there, cost.flops, cost.bytes_read, cost.bytes_written);
  }
  // A step that takes no time at all could be repeated without end.
  static int64_t whole(double ns) { return std::max<int64_t>(std::llround(ns), 1); }

  const CountedCosts counted_;
  std::map<std::string, Times> ops_, places_, kinds_;
  Times all_;
};

}  // namespace

std::shared_ptr<const StepCosts> profile_costs(const std::string& text, const std::string& name) {
  try {
    return std::make_shared<ProfileCosts>(Json::parse(text));
  } catch (const Error& error) {
    throw DataError(
        fmt::format("memory.costs: {}: is no profile as `trainer profile --json` writes it: {}",
                    name, error.what()));
  }
}

std::shared_ptr<const StepCosts> costs_named(const std::string& costs) {
  if (costs == "counted") return std::make_shared<CountedCosts>();
  std::ifstream file(costs, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    throw DataError(fmt::format(
        "memory.costs: cannot read '{0}'; it is counted, or a profile: trainer profile --config "
        "C.yaml --json > {0}",
        costs));
  return profile_costs(text.str(), costs);
}

}  // namespace tessera
