// The part of YAML that configurations are written in, as a tree that knows where everything
// stands.
//
// Refused, each with its place: bytes that are not UTF-8, control characters, tabs in an
// indentation, anchors, aliases, merge keys and tags, a second document, keys that are empty, given
// twice or no words, more than kYamlMostDepth levels, kYamlMostValues values or kYamlMostBytes
// bytes. The tree is built from the parser's events, so time and memory stay proportional to the
// text.
#pragma once

#include <optional>
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
    kRefused,  // an error is reported already
  };
  Kind kind = Kind::kMissing;
  SourceRange range;            // of a map or list its first character
  std::string text;             // of a scalar
  bool quoted = false;          // "15" is a text, 15 a number
  std::vector<YamlNode> keys;   // of a map: scalars
  std::vector<YamlNode> items;  // of a list, or the values of the keys
  bool repeated = false;        // of a key: an equal one stands before it, which is reported
  bool has_gaps = false;        // of a map: keys that could not be read are left out

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_plain() const { return is_scalar() && !quoted; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
};

struct YamlDocument {
  YamlNode root;         // kMissing for an empty text
  bool complete = true;  // false: the text ends the tree early with a syntax error
};

// Reads from byte `begin` of the source on. Reports errors and goes on as far as it can.
YamlDocument read_yaml(const std::shared_ptr<const SourceText>& source, size_t begin,
                       Diagnostics& errors);

}  // namespace tessera
