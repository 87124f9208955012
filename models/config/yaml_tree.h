// YamlNode: a tree of the YAML subset of configurations, with source positions.
//
// These are errors, each with its position: bytes that are not UTF-8, control characters, tabs in
// an indentation, anchors, aliases, merge keys and tags, a second document, keys that are empty,
// repeated or not scalars, more than kYamlMostDepth levels, kYamlMostValues values or
// kYamlMostBytes bytes. The tree is built from the parser's events, so time and memory are
// proportional to the text.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/config/diagnostics.h"

namespace tessera {

constexpr int kYamlMostDepth = 32;
constexpr size_t kYamlMostValues = 100'000;
constexpr size_t kYamlMostBytes = size_t{1} << 20;

struct YamlNode {
  enum class Kind {
    kMissing,  // nothing, ~ or null
    kScalar,
    kList,
    kMap,
    kRefused,  // an error was reported
  };
  Kind kind = Kind::kMissing;
  SourceRange range;            // map or list: the first character
  std::string text;             // value of a scalar
  bool quoted = false;          // "15" is a string, 15 a number
  std::vector<YamlNode> keys;   // map: scalars
  std::vector<YamlNode> items;  // list: its entries; map: the values of the keys
  bool repeated = false;        // key: repeats an earlier key; reported
  bool has_gaps = false;        // map: keys that could not be read are left out

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_plain() const { return is_scalar() && !quoted; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
};

struct YamlDocument {
  YamlNode root;         // kMissing for an empty text
  bool complete = true;  // false: a syntax error ended the tree early
};

// Parses the source from byte `begin` on. Reports errors and continues as far as possible.
YamlDocument read_yaml(const std::shared_ptr<const SourceText>& source, size_t begin,
                       Diagnostics& errors);

}  // namespace tessera
