#include "tessera/models/config/yaml_tree.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

using SourcePtr = std::shared_ptr<const SourceText>;

// The input of yaml-cpp. Each byte that yaml-cpp might reject is reported and replaced by one byte,
// so that positions stay the same.
class Cleaned {
 public:
  Cleaned(const SourcePtr& source, size_t begin, Diagnostics& errors)
      : text(source->text), source_(source), errors_(errors) {
    std::fill_n(text.begin(), begin, ' ');
    const std::string& original = source->text;
    if (begin == 0 && (original.starts_with("\xFF\xFE") || original.starts_with("\xFE\xFF"))) {
      errors.add({source, 0, 2}, "a configuration must be UTF-8, but this file is UTF-16");
      is_text = false;
      return;
    }
    for (size_t at = begin; at < original.size() && bad.size() < kMaxBad;) {
      const Utf8Character character = utf8_at(original, at);
      check(at, character);
      at += character.bytes;
    }
    is_text = bad.size() < kMaxBad;
    check_tabs(begin);
  }

  std::string text;
  bool is_text = true;      // false: too many bad bytes to be worth parsing
  std::vector<size_t> bad;  // positions of replaced bytes, increasing
  bool had_tabs = false;    // may cause a later syntax error

 private:
  static constexpr size_t kMaxBad = 8;

  void check(size_t at, const Utf8Character& character) {
    const std::string& original = source_->text;
    if (character.code == '\n' || character.code == '\t') return;
    if (character.code == '\r' && at + 1 < original.size() && original[at + 1] == '\n') {
      text[at] = ' ';
      return;
    }
    if (character.code >= 0 && !character.is_control()) return;
    const auto byte = static_cast<unsigned char>(original[at]);
    errors_.add({source_, at, character.bytes},
                character.code < 0 ? fmt::format("the byte 0x{:02X} is not UTF-8", byte)
                : character.code == '\r'
                    ? "a carriage return without a line feed; end lines with a line feed"
                    : fmt::format("the control character U+{:04X} is not allowed", character.code));
    std::fill_n(text.begin() + at, character.bytes, '_');
    bad.push_back(at);
  }

  void check_tabs(size_t begin) {
    for (size_t at = begin; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = std::string_view(text).substr(at, end - at);
      const size_t word = at + std::min(line.find_first_not_of(" \t"), line.size());
      const size_t tab = at + std::min(line.find('\t'), line.size());
      if (tab < word && word < end && text[word] != '#') {
        errors_.add({source_, tab, word - tab}, "a tab in the indentation; indent with spaces");
        std::replace(text.begin() + at, text.begin() + word, '\t', ' ');
        had_tabs = true;
      }
      at = end + 1;
    }
  }

  const SourcePtr& source_;
  Diagnostics& errors_;
};

struct Stop {};  // thrown through the parser to abandon the text

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const SourcePtr& source, const std::vector<size_t>& bad, Diagnostics& errors)
      : source_(source), bad_(bad), errors_(errors) {}

  // Returns the tree. If the text ended early, open containers are closed.
  YamlNode take(bool complete) {
    cut_off_ = !complete;
    if (cut_off_ && !open_.empty() && !open_.back().node.items.empty()) {
      // A scalar over several lines probably contains the text after a missing bracket.
      YamlNode& last = open_.back().node.items.back();
      if (last.is_plain() && last.text.size() != last.range.length)
        last.kind = YamlNode::Kind::kRefused;
    }
    while (!open_.empty()) close();
    return std::move(root_);
  }
  // Returns the innermost open bracket, if any.
  const YamlNode* open_bracket() const {
    if (open_.empty()) return nullptr;
    const char first = at(open_.back().node.range.begin);
    return first == '[' || first == '{' ? &open_.back().node : nullptr;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    errors_.add(range(mark), "a configuration must be one document, but a second one begins here");
    throw Stop();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    YamlNode node = made(YamlNode::Kind::kMissing, mark);
    if (node.kind == YamlNode::Kind::kMissing) node.range.length = word_length(node.range.begin);
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    add(made(YamlNode::Kind::kRefused, mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    YamlNode node = made(YamlNode::Kind::kScalar, mark);
    node.text = text;
    node.quoted = tag != "?";
    if (node.is_scalar()) node.range.length = scalar_length(node.range.begin, text);
    const auto bad = std::lower_bound(bad_.begin(), bad_.end(), node.range.begin);
    if (bad != bad_.end() && *bad < node.range.begin + node.range.length)
      node.kind = YamlNode::Kind::kRefused;
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kList, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kMap, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    bool is_key = false;       // the container is in the place of a key
    bool wants_value = false;  // map: the last key has no value yet
    bool keep = true;          // map: the next value belongs to a valid key
    std::unordered_map<std::string, SourceRange> seen;  // map: keys
  };
  static constexpr size_t kNone = std::string_view::npos;

  char at(size_t i) const { return i < source_->text.size() ? source_->text[i] : '\0'; }

  SourceRange range(const YAML::Mark& mark) const {
    const auto begin = static_cast<size_t>(std::max(mark.pos, 0));
    return {source_, std::min(begin, source_->text.size()), 1};
  }

  size_t word_length(size_t begin) const {
    size_t end = begin;
    while (end < source_->text.size() && std::string_view(" \t\r\n,[]{}").find(at(end)) == kNone)
      ++end;
    return std::max<size_t>(1, end - begin);
  }

  size_t scalar_length(size_t begin, const std::string& text) const {
    const char quote = at(begin);
    if (quote == '"' || quote == '\'') {
      size_t end = begin + 1;
      while (at(end) != quote && at(end) != '\n' && end < source_->text.size())
        end += quote == '"' && at(end) == '\\' ? 2 : 1;
      return std::min(end + 1, source_->text.size()) - begin;
    }
    if (source_->text.compare(begin, text.size(), text) == 0)
      return std::max<size_t>(1, text.size());
    return std::min(source_->text.find('\n', begin), source_->text.size()) - begin;
  }

  // Returns a node at the mark; kRefused for anchors, aliases and tags.
  YamlNode made(YamlNode::Kind kind, const YAML::Mark& mark) {
    if (++values_ > kYamlMostValues) {
      errors_.add(range(mark), fmt::format("more than {} values", kYamlMostValues));
      throw Stop();
    }
    YamlNode node;
    node.kind = kind;
    node.range = range(mark);
    if (refuse_property(node.range)) node.kind = YamlNode::Kind::kRefused;
    return node;
  }

  bool refuse_property(SourceRange where) {
    const char first = at(where.begin);
    if (first != '&' && first != '*' && first != '!') return false;
    if (std::exchange(last_refused_, where.begin) == where.begin) return true;
    where.length = word_length(where.begin);
    errors_.add(where, first == '&'   ? "anchors are not supported; write out each value"
                       : first == '*' ? "aliases are not supported; write out each value"
                                      : "tags are not supported; the key determines the type");
    return true;
  }

  bool wants_key() const {
    return !open_.empty() && open_.back().node.is_map() && !open_.back().wants_value;
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark) {
    Open container;
    container.is_key = wants_key();
    container.node = made(kind, mark);
    // Anchors and tags are reported, but the container is still read.
    container.node.kind = kind;
    if (open_.size() >= static_cast<size_t>(kYamlMostDepth)) {
      errors_.add(container.node.range, fmt::format("more than {} levels deep", kYamlMostDepth));
      throw Stop();
    }
    open_.push_back(std::move(container));
  }

  void close() {
    Open container = std::move(open_.back());
    open_.pop_back();
    YamlNode& node = container.node;
    node.keys.resize(std::min(node.keys.size(), node.items.size()));
    if (container.is_key) {
      if (!cut_off_) errors_.add(node.range, "a key must be a word");
      node.kind = YamlNode::Kind::kRefused;
      add_key(std::move(node));
    } else {
      add(std::move(node));
    }
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (wants_key()) {
      add_key(std::move(node));
    } else {
      Open& parent = open_.back();
      parent.wants_value = false;
      if (parent.keep) parent.node.items.push_back(std::move(node));
    }
  }

  void add_key(YamlNode node) {
    Open& map = open_.back();
    map.wants_value = true;
    map.keep = check_key(node);
    map.node.has_gaps |= !map.keep;
    if (!map.keep) return;
    const auto [first, is_new] = map.seen.emplace(node.text, node.range);
    if (!is_new) report_repeated(node, first->second);
    map.node.keys.push_back(std::move(node));
  }

  bool check_key(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kRefused) return false;
    if (!node.is_scalar() || node.text.empty()) {
      errors_.add(node.range, "a key is missing here");
    } else if (node.text == "<<" && !node.quoted) {
      errors_.add(node.range, "merge keys are not supported; write out each value");
    } else {
      return true;
    }
    return false;
  }

  void report_repeated(YamlNode& key, const SourceRange& first) {
    if (errors_.full()) throw Stop();
    errors_.add(key.range, fmt::format("'{}' is given twice, first in line {}",
                                       utf8_printable(key.text.substr(0, 64)), first.line()));
    key.repeated = true;
  }

  const SourcePtr& source_;
  const std::vector<size_t>& bad_;
  Diagnostics& errors_;
  std::vector<Open> open_;
  YamlNode root_;
  bool cut_off_ = false;
  int documents_ = 0;
  size_t values_ = 0;
  size_t last_refused_ = kNone;
};

void report_syntax(const YAML::Exception& error, const SourcePtr& source, const YamlNode* bracket,
                   Diagnostics& errors) {
  const auto at = static_cast<size_t>(std::max(error.mark.pos, 0));
  const SourceRange range{source, std::min(at, source->text.size()), 1};
  if (at < source->text.size() && source->text[at] == '*') {
    errors.add(range, "aliases are not supported; write out each value");
    return;
  }
  std::string why = error.msg;
  if (bracket != nullptr && why.starts_with("end of "))
    why = fmt::format("the '{}' in line {}, column {}, is not closed",
                      source->text[bracket->range.begin], bracket->range.line(),
                      bracket->range.column());
  errors.add(range, "not YAML: " + utf8_printable(why));
}

}  // namespace

YamlDocument read_yaml(const SourcePtr& source, size_t begin, Diagnostics& errors) {
  YamlDocument document;
  document.complete = false;
  if (source->text.size() > kYamlMostBytes) {
    errors.add({source, 0, 1}, "a configuration must not be larger than 1 MiB");
    return document;
  }
  const Cleaned cleaned(source, begin, errors);
  if (!cleaned.is_text) return document;
  TreeBuilder builder(source, cleaned.bad, errors);
  try {
    std::istringstream stream(cleaned.text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
    document.complete = true;
  } catch (const YAML::Exception& error) {
    if (!cleaned.had_tabs) report_syntax(error, source, builder.open_bracket(), errors);
  } catch (const Stop&) {
  }
  document.root = builder.take(document.complete);
  return document;
}

}  // namespace tessera
