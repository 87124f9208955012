#include "tessera/models/study/profile_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "tessera/models/study/profile.h"
#include "tessera/models/training/profile_costs.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

struct Timed {
  double us = 0;
  std::string algorithm, shape;
};

using TimesByOp = std::map<std::string, Timed>;

struct ProfileFile {
  std::vector<std::pair<std::string, std::string>> settings;  // what times depend on
  double step_ms = 0;
  TimesByOp kinds;
  TimesByOp ops;  // by name, place and phase, numbered where these repeat
};

ProfileFile read(const std::string& text, const std::string& name) {
  ProfileFile file;
  try {
    const Json root = Json::parse(text);
    if (const std::string format = root["format"].string(); format != kProfileFormat)
      throw Error(
          fmt::format("its format is '{}', not '{}'; write it anew", format, kProfileFormat));
    for (const char* key : {"device", "isa", "kernels", "threads", "batch"})
      file.settings.emplace_back(key, root[key].text());
    file.step_ms = root["step_ms"]["median"].number();
    for (const Json& kind : root["kinds"].items())
      file.kinds[kind["op"].string()] = {kind["us"].number(), "", ""};
    std::map<std::string, int> seen;
    for (const Json& op : root["ops"].items()) {
      std::string title = op_title(op["op"].string(), op["place"].string());
      if (op["phase"].string() == "backward") title += ", backward";  // gradients made of products
      if (const int n = seen[title]++; n > 0) title += fmt::format(" ({})", n + 1);
      file.ops[title] = {op["us"]["median"].number(), op["algorithm"].string(),
                         op["shape"].string()};
    }
  } catch (const Error& error) {
    throw ConfigError(fmt::format("{}: is no profile as `trainer profile --json` writes it: {}",
                                  name, error.what()));
  }
  return file;
}

struct Change {
  std::string title;
  std::optional<Timed> before, after;
  double difference() const { return (after ? after->us : 0) - (before ? before->us : 0); }
  // What else has changed.
  std::string remark() const {
    if (!before) return fmt::format("  only in the second: {} {}", after->algorithm, after->shape);
    if (!after) return fmt::format("  only in the first: {} {}", before->algorithm, before->shape);
    std::string text;
    if (before->algorithm != after->algorithm)
      text += fmt::format("  {} => {}", before->algorithm, after->algorithm);
    if (before->shape != after->shape)
      text += fmt::format("  {} => {}", before->shape, after->shape);
    return text;
  }
};

std::vector<Change> changes(const TimesByOp& a, const TimesByOp& b) {
  std::vector<Change> all;
  for (const auto& [title, timed] : a) {
    const auto other = b.find(title);
    all.push_back({title, timed, {}});
    if (other != b.end()) all.back().after = other->second;
  }
  for (const auto& [title, timed] : b)
    if (!a.contains(title)) all.push_back({title, {}, timed});
  std::stable_sort(all.begin(), all.end(), [](const Change& x, const Change& y) {
    return std::abs(x.difference()) > std::abs(y.difference());
  });
  return all;
}

std::string ratio_text(double before, double after) {
  return before > 0 && after > 0 ? fmt::format("{:.3f}", after / before) : "";
}

std::string table(const TimesByOp& a, const TimesByOp& b, size_t most, const char* what) {
  const std::vector<Change> all = changes(a, b);
  const size_t shown = most == 0 ? all.size() : std::min(most, all.size());
  const auto time = [](const std::optional<Timed>& timed) {
    return timed ? fmt::format("{:.1f}", timed->us) : "";
  };
  std::string text =
      fmt::format("{:>11} {:>11} {:>7} {:>11}  {}\n", "us", "now", "ratio", "difference", what);
  for (size_t i = 0; i < shown; ++i) {
    const Change& c = all[i];
    text += fmt::format("{:>11} {:>11} {:>7} {:>+11.1f}  {}{}\n", time(c.before), time(c.after),
                        ratio_text(c.before ? c.before->us : 0, c.after ? c.after->us : 0),
                        c.difference(), c.title, c.remark());
  }
  if (shown < all.size())
    text += fmt::format("and {} more; --ops 0 shows all\n", all.size() - shown);
  return text;
}

}  // namespace

std::string diff_profiles(const std::string& a, const std::string& name_a, const std::string& b,
                          const std::string& name_b, size_t most) {
  const ProfileFile before = read(a, name_a), after = read(b, name_b);
  std::string text;
  for (size_t i = 0; i < before.settings.size(); ++i)
    if (const auto& x = before.settings[i], &y = after.settings[i]; x != y)
      text += fmt::format("{}: {} => {}\n", x.first, x.second, y.second);
  text += fmt::format("step {:.3f} => {:.3f} ms, ratio {}\n\n", before.step_ms, after.step_ms,
                      ratio_text(before.step_ms, after.step_ms));
  return text + table(before.kinds, after.kinds, 0, "kind") + "\n" +
         table(before.ops, after.ops, most, "op, place");
}

}  // namespace tessera
