#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/models/config/config.h"
#include "tessera/models/config/yaml_tree.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/models/config/wrong_configs.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Parses JSON as YAML, of which it is a subset.
YamlNode tree_of(const std::string& text) {
  Diagnostics errors;
  YamlNode root = read_yaml(std::make_shared<SourceText>(SourceText{"text", text}), 0, errors).root;
  errors.throw_if_any();
  return root;
}

const YamlNode* member(const YamlNode& map, const std::string& name) {
  for (size_t i = 0; i < map.keys.size(); ++i)
    if (map.keys[i].text == name) return &map.items[i];
  return nullptr;
}

std::string type_of(const YamlNode& node) {
  static const std::regex number("-?(0|[1-9][0-9]*)?([.][0-9]*)?([eE][-+]?[0-9]+)?");
  if (node.is_map()) return "object";
  if (node.is_list()) return "array";
  if (node.kind == YamlNode::Kind::kMissing) return "null";
  if (node.quoted || !std::regex_match(node.text, number))
    return !node.quoted && (node.text == "true" || node.text == "false") ? "boolean" : "string";
  return node.text.find_first_of(".eE") == std::string::npos ? "integer" : "number";
}

bool same_scalar(const YamlNode& a, const YamlNode& b) {
  return a.is_scalar() && b.is_scalar() && a.text == b.text &&
         (type_of(a) == "integer") == (type_of(b) == "integer");
}

// Implements the words of JSON Schema that our schema uses; any other word fails the test.
bool valid(const YamlNode& schema, const YamlNode& value);

bool valid_type(const YamlNode& type, const YamlNode& value) {
  for (const YamlNode& one : type.is_list() ? type.items : std::vector<YamlNode>{type})
    if (one.text == type_of(value) || (one.text == "number" && type_of(value) == "integer"))
      return true;
  return false;
}

bool valid_members(const YamlNode& schema, const YamlNode& value) {
  const YamlNode* properties = member(schema, "properties");
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const YamlNode* property = member(*properties, value.keys[i].text);
    if (property == nullptr || !valid(*property, value.items[i])) return false;
  }
  if (const YamlNode* required = member(schema, "required"))
    for (const YamlNode& name : required->items)
      if (member(value, name.text) == nullptr) return false;
  return true;
}

bool valid(const YamlNode& schema, const YamlNode& value) {
  static const YamlNode root = tree_of(config_schema());
  const std::string type = type_of(value);
  const bool is_number = type == "integer" || type == "number";
  const double number = is_number ? std::stod(value.text) : 0;
  for (size_t i = 0; i < schema.keys.size(); ++i) {
    const std::string& word = schema.keys[i].text;
    const YamlNode& rule = schema.items[i];
    bool right = true;
    if (word == "type") {
      right = valid_type(rule, value);
    } else if (word == "enum") {
      right = std::any_of(rule.items.begin(), rule.items.end(),
                          [&](const YamlNode& one) { return same_scalar(one, value); });
    } else if (word == "const") {
      right = same_scalar(rule, value);
    } else if (word == "anyOf") {
      right = std::any_of(rule.items.begin(), rule.items.end(),
                          [&](const YamlNode& one) { return valid(one, value); });
    } else if (word == "pattern") {
      right = type == "string" && std::regex_search(value.text, std::regex(rule.text));
    } else if (word == "minimum") {
      right = !is_number || number >= std::stod(rule.text);
    } else if (word == "maximum") {
      right = !is_number || number <= std::stod(rule.text);
    } else if (word == "exclusiveMinimum") {
      right = !is_number || number > std::stod(rule.text);
    } else if (word == "exclusiveMaximum") {
      right = !is_number || number < std::stod(rule.text);
    } else if (word == "items") {
      for (const YamlNode& item : value.items)
        if (value.is_list()) right = right && valid(rule, item);
    } else if (word == "$ref") {
      EXPECT_EQ(rule.text, "#/$defs/layer");
      right = valid(*member(*member(root, "$defs"), "layer"), value);
    } else if (word == "properties") {
      right = !value.is_map() || valid_members(schema, value);
    } else {
      EXPECT_TRUE(word == "$schema" || word == "$defs" || word == "title" ||
                  word == "description" || word == "required" || word == "additionalProperties")
          << word;
    }
    if (!right) return false;
  }
  return true;
}

TEST(ConfigDocs, SchemaTakesWhatIsRight) {
  const YamlNode schema = tree_of(config_schema());
  for (const auto& file : fs::directory_iterator(TESSERA_SOURCE_DIR "/models/configs"))
    EXPECT_TRUE(valid(schema, tree_of(read_file(file.path())))) << file.path();
  for (const std::string& model : model_names())
    EXPECT_TRUE(valid(schema, tree_of(config_template(model)))) << model;
  EXPECT_TRUE(valid(schema, tree_of(print_config(Config()))));
}

// An editor underlines most errors of the reader too: keys, types, units, ranges, names.
TEST(ConfigDocs, SchemaRefusesWhatIsWrong) {
  const YamlNode schema = tree_of(config_schema());
  int of = 0;
  for (const char* kind : {"unknown", "type", "unit", "range", "boolean", "name"}) {
    const fs::path folder = TESSERA_SOURCE_DIR "/tests/errors/config";
    for (const WrongConfig& wrong : read_wrong_configs(folder / fmt::format("{}.txt", kind))) {
      bool wanted = true;
      for (const char* other : {"-device", "-gpu", "_of_other", "-bytes_half", "-limit_large",
                                "-half_step", "-limit.", "-seed_large", "-exponent"})
        wanted = wanted && wrong.name.find(other) == std::string::npos;  // not in a schema
      if (!wanted) continue;
      ++of;
      EXPECT_FALSE(valid(schema, tree_of(wrong.text()))) << wrong.name;
    }
  }
  EXPECT_GE(of, 60);
}

TEST(ConfigDocs, ThePageIsTheCommittedOne) {
  EXPECT_EQ(config_reference(), read_file(TESSERA_SOURCE_DIR "/docs/config.md"))
      << "write it with: trainer config reference > docs/config.md";
}

TEST(ConfigDocs, TheTemplateIsAllDefaultsOfItsModel) {
  for (const std::string& model : model_names()) {
    Config config;
    config.model.name = model;
    if (model == "alexnet") config.data.image_size = 64;  // the default is too small
    EXPECT_EQ(print_config(parse_config(config_template(model), model)), print_config(config));
  }
  EXPECT_THROW(config_template("resnet21"), ConfigError);
}

}  // namespace
}  // namespace tessera
