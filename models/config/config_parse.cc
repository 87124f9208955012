// Parses YAML and overrides into a Config along config_keys(), and collects all errors.
#include <algorithm>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/config/yaml_tree.h"
#include "tessera/runtime/text/spelling.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

using SourcePtr = std::shared_ptr<const SourceText>;

class Parser {
 public:
  explicit Parser(Config& config) : config_(config), keys_(config_keys(config)) {}

  void file(std::string_view text, const std::string& name) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    file_ = std::make_shared<SourceText>(SourceText{name, std::string(text)});
    const YamlDocument document = read_yaml(file_, 0, errors_);
    const YamlNode& root = document.root;
    file_is_read_ = document.complete && root.kind != YamlNode::Kind::kRefused && !root.has_gaps;
    if (root.is_map()) {
      read_map(root, "");
      optimizer_of_file_ = config_.optimizer.name;
    } else if (root.is_scalar() || root.is_list()) {
      errors_.add(root.range, "a configuration is a mapping of keys, such as `seed: 1`");
    }
  }

  void override_key(const std::string& text, int index) {
    const auto source = std::make_shared<SourceText>(
        SourceText{"command line", text, /*order=*/index, /*first_line=*/index});
    if (text.size() > kYamlMostBytes)
      return errors_.add({source, 0, 1}, "an override must not be larger than 1 MiB");
    if (text.starts_with('~')) return put_back(text.substr(1), {source, 1, text.size() - 1});
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return errors_.add({source, 0, std::max<size_t>(1, text.size())},
                         "an override is written key=value, such as train.steps=50, or ~key");
    const std::string path = text.substr(0, equals);
    const YamlDocument value = read_yaml(source, equals + 1, errors_);
    if (value.complete)
      read_entry(path, value.root, {source, 0, equals});
    else
      wrong_groups_.insert(outer_group(path));
  }

  // Applies the rules between several keys, then throws all errors.
  void finish(bool resolved) {
    prefer_last_length();
    ignore_unread_keys(resolved);
    complete_normalization();
    if (!given_.count("optimizer.lr")) config_.optimizer.lr = usual_lr(config_.optimizer.name);
    if (!config_.model.layers.empty() && !given_.count("model.name")) config_.model.name = "layers";
    if (file_is_read_) check_config(config_, given_, wrong_groups_, {file_, 0, 1}, errors_);
    errors_.throw_if_any();
    config_.given = std::make_shared<const GivenKeys>(given_);
  }

 private:
  // Returns the group of a key; a group is its own group.
  std::string outer_group(const std::string& path) const {
    const size_t dot = path.find('.');
    return dot != std::string::npos || !children(path).empty() ? path.substr(0, dot) : "";
  }

  // Returns false if an entry was refused or repeated, because its meaning is then unclear.
  static bool is_whole(const YamlNode& node) {
    const auto once = [](const YamlNode& key) { return !key.repeated; };
    return node.kind != YamlNode::Kind::kRefused && !node.has_gaps &&
           std::ranges::all_of(node.keys, once) && std::ranges::all_of(node.items, is_whole);
  }

  void read_map(const YamlNode& map, const std::string& prefix) {
    for (size_t i = 0; i < map.keys.size(); ++i) {
      const YamlNode& key = map.keys[i];
      if (key.repeated) wrong_groups_.insert(outer_group(prefix + key.text));
      if (key.text.find('.') == std::string::npos)
        read_entry(prefix + key.text, map.items[i], key.range);
      else
        errors_.add(key.range, fmt::format("unknown key '{}'; nest the keys of a group, as in {}",
                                           utf8_printable(key.text.substr(0, 64)), kNested));
    }
  }

  void read_entry(const std::string& path, const YamlNode& value, const SourceRange& where) {
    const auto key = std::ranges::find(keys_, path, &ConfigKey::path);
    if (!is_whole(value)) wrong_groups_.insert(outer_group(path));
    if (key != keys_.end()) {
      given_[path] = where;
      const size_t before = errors_.size();
      read_value(*key, value, where, errors_);
      if (errors_.size() > before) wrong_groups_.insert(key->group());
    } else if (children(path).empty()) {
      report_unknown(path, where);
    } else if (value.is_map()) {
      read_map(value, path + ".");
    } else if (value.kind != YamlNode::Kind::kRefused) {
      errors_.add(
          value.kind == YamlNode::Kind::kMissing ? where : value.range,
          fmt::format("{}: must be a mapping of keys ({})", path, fmt::join(children(path), ", ")));
    }
  }

  // Gives keys_[i] its default.
  void put_back(size_t i) {
    std::visit([&](auto* target) { *target = *std::get<decltype(target)>(fresh_[i].target); },
               keys_[i].target);
  }

  // Handles ~key: discards the values that the file and earlier overrides gave the key.
  void put_back(const std::string& path, const SourceRange& where) {
    bool found = false;
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i].path != path && !keys_[i].path.starts_with(path + ".")) continue;
      found = true;
      given_.erase(keys_[i].path);
      put_back(i);
    }
    if (found) return;
    if (path.find('=') != std::string::npos)
      return errors_.add(where, "~key resets a key to its default; remove the value");
    report_unknown(path, where);
  }

  // Returns the names in a group, or for "" at the top level.
  std::vector<std::string> children(const std::string& group) const {
    const std::string prefix = group.empty() ? "" : group + ".";
    std::vector<std::string> names;
    for (const ConfigKey& key : keys_) {
      if (!key.path.starts_with(prefix)) continue;
      std::string name = key.path.substr(prefix.size());
      name = name.substr(0, name.find('.'));
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names;
  }

  void report_unknown(const std::string& path, SourceRange where) {
    const size_t dot = path.rfind('.');
    std::string group = dot == std::string::npos ? "" : path.substr(0, dot);
    std::vector<std::string> known = children(group);
    std::string name = path.substr(dot + 1);
    const bool dotted = where.is_override() && dot != std::string::npos;
    if (known.empty()) {  // an override whose group is also unknown
      known = children(group = "");
      name = path;
    } else if (dotted && where.length == path.size()) {
      where.begin += dot + 1;
      where.length -= dot + 1;
    }
    const std::string instead = meant(group, name, known);
    const bool outside = instead == name;  // a top-level key has this name
    errors_.add(where,
                fmt::format("unknown key '{}'{}{}", utf8_printable(name.substr(0, 64)),
                            group.empty() ? "" : " in " + utf8_printable(group),
                            outside           ? "; it is a top-level key, not in a group"
                            : instead.empty() ? fmt::format(" (known: {})", fmt::join(known, ", "))
                                              : ""),
                outside ? "" : instead);
  }

  // Returns the intended name in the group, else the nearest full key.
  std::string meant(const std::string& group, const std::string& name,
                    const std::vector<std::string>& known) const {
    std::string nearest = meant_name(group, name, known);
    if (!nearest.empty()) return nearest;
    std::vector<std::string> paths;
    for (const ConfigKey& key : keys_) {
      if (key.leaf() == name) return key.path;
      paths.push_back(key.path);
    }
    return nearest_spelling(name, paths);
  }

  // Keeps epochs or steps: an override of one resets the other; otherwise giving both is an error.
  void prefer_last_length() {
    const auto steps = given_.find("train.steps"), epochs = given_.find("train.epochs");
    if (!config_.train.steps) return;
    if (steps != given_.end() && epochs != given_.end()) {
      const bool steps_last = steps->second.is_override();
      if (steps_last == epochs->second.is_override()) {
        errors_.add(std::max(steps, epochs,
                             [](auto a, auto b) { return a->second.begin < b->second.begin; })
                        ->second,
                    "train.steps and train.epochs: set only one of them");
        return;
      }
      if (!steps_last) {
        config_.train.steps.reset();
        given_.erase(steps);
        return;
      }
      given_.erase(epochs);
    }
    config_.train.epochs = TrainConfig().epochs;
  }

  bool is_overridden(const std::string& path) const {
    const auto given = given_.find(path);
    return given != given_.end() && given->second.is_override();
  }

  // Resets and lists the keys that the file gives for one model, optimizer or data set if an
  // override chooses another.
  void ignore_unread_keys(bool resolved) {
    std::vector<std::string> known;  // options of the model
    if (wrong_groups_.count("model") == 0) {
      if (is_overridden("model.name")) drop("model.layers");
      if (is_overridden("model.layers")) drop("model.name");
      known = options_of_model(config_.model.name, given_.count("model.layers") != 0);
      known.emplace_back("name");
    }
    // A learning rate fits only the optimizer for which it was given.
    if (usual_lr(config_.optimizer.name) != usual_lr(optimizer_of_file_)) drop("optimizer.lr");
    const bool other_model = is_overridden("model.name") || is_overridden("model.layers");
    for (const ConfigKey& key : keys_) {
      const std::string choice = choice_that_puts_aside(key);
      if (key.group() == "model") {
        if (other_model && !known.empty() && std::ranges::count(known, key.leaf()) == 0)
          drop(key.path);
      } else if (!choice.empty() && (resolved || is_overridden(choice)) &&
                 wrong_groups_.count(group_of(choice)) == 0 &&
                 wrong_groups_.count(key.group()) == 0 &&
                 !why_without_effect(config_, key).empty()) {
        drop(key.path);
      }
    }
  }

  // Resets a key of the file; an override without effect is an error.
  void drop(const std::string& path) {
    const auto given = given_.find(path);
    if (given == given_.end() || given->second.is_override()) return;
    const auto i =
        static_cast<size_t>(std::ranges::find(keys_, path, &ConfigKey::path) - keys_.begin());
    if (!is_default(keys_[i]) || path == "model.name" || path == "optimizer.lr")
      config_.ignored_keys.push_back(fmt::format("{}: {} ({}:{})", path, value_text(keys_[i]),
                                                 given->second.source->name, given->second.line()));
    if (path != "model.name") put_back(i);
    given_.erase(path);
  }

  // Sets data.std to the values of the same name if data.mean is given by name and data.std is not.
  void complete_normalization() {
    const auto given = given_.find("data.mean");
    if (given == given_.end() || !config_.data.std.empty()) return;
    const auto lists = [&](const char* path) {
      return std::ranges::find(keys_, path, &ConfigKey::path)->rule.lists;
    };
    const auto means = lists("data.mean"), deviations = lists("data.std");
    for (size_t i = 0; i < means.size(); ++i) {
      if (config_.data.mean != means[i].second) continue;
      config_.data.std = deviations[i].second;
      given_["data.std"] = given->second;
    }
  }

  static constexpr const char* kNested = "`data: {batch: 128}`";

  Config& config_;
  const std::vector<ConfigKey> keys_;
  Config defaults_;
  const std::vector<ConfigKey> fresh_ = config_keys(defaults_);
  Diagnostics errors_;
  SourcePtr file_;
  std::set<std::string> wrong_groups_;  // groups with errors
  bool file_is_read_ = true;            // completely, with every group
  GivenKeys given_;
  std::string optimizer_of_file_ = OptimizerConfig().name;
};

Config parse(std::string_view text, const std::string& name,
             const std::vector<std::string>& overrides, bool resolved) {
  Config config;
  Parser parser(config);
  parser.file(text, name);
  int index = 0;
  for (const std::string& override_text : overrides) parser.override_key(override_text, ++index);
  parser.finish(resolved);
  return config;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text, part(4096, '\0');
  while (text.size() <= kYamlMostBytes && file.read(part.data(), std::ssize(part)).gcount() > 0)
    text.append(part, 0, static_cast<size_t>(file.gcount()));
  if (!file.eof() && text.size() <= kYamlMostBytes) {
    throw ConfigError(
        fmt::format("{}: cannot be read as a file; give the path of a configuration", path));
  }
  return text;
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  return parse(text, name, overrides, false);
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  return parse(contents_of(path), path, overrides, false);
}

Config load_resolved_config(const std::string& path, const std::vector<std::string>& overrides) {
  return parse(with_current_names(contents_of(path)), path, overrides, true);
}

}  // namespace tessera
