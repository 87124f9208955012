// Errors about places in a text, as a compiler shows them:
//
//   a.yaml:2:9: error: unknown key 'nmae' in model (known: name, classes)
//     model: {nmae: x}
//             ^~~~ did you mean 'name'?
//
// Lines and columns count from 1, columns in characters.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tessera/runtime/error.h"

namespace tessera {

// A configuration with errors: what() is all of them, by place, one after the other.
class ConfigErrors : public ConfigError {
  using ConfigError::ConfigError;
};

// A text that errors are about: a file, or one override of the command line.
struct SourceText {
  std::string name;  // "resnet.yaml"
  std::string text;
  int order = 0;       // errors of a lower one come first
  int first_line = 1;  // what its first line is called
};

// A part of a source, in bytes.
struct SourceRange {
  std::shared_ptr<const SourceText> source;
  size_t begin = 0, length = 1;

  int line() const;
  int column() const;
  std::string name() const;  // "resnet.yaml:3:7"
  // The error as above; without the last words when there is no `instead`.
  std::string error(const std::string& text, const std::string& instead = "") const;
};

struct Config;  // config.h
// What only a run finds wrong with a configuration: the error with its line, as above, where its
// text begins with a key that was given ("schedule.milestones: ..."); else as it is.
std::string placed_text(const Config& config, const ConfigError& error);
// Throws that, within the handler of the error.
[[noreturn]] void rethrow_placed(const Config& config, const ConfigError& error);

// Gathers the errors of one reading. Keeps the first kMax and counts the rest.
class Diagnostics {
 public:
  static constexpr size_t kMax = 100;

  // instead: what was probably meant.
  void add(const SourceRange& range, const std::string& text, const std::string& instead = "");
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size() + more_; }
  bool full() const { return entries_.size() == kMax; }
  void throw_if_any() const;

 private:
  struct Entry {
    SourceRange range;
    std::string text, instead;
  };
  std::vector<Entry> entries_;
  size_t more_ = 0;
};

}  // namespace tessera
