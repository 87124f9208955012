// Errors at positions in a text, shown as compilers do:
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

// The errors of a configuration: what() lists all of them in order of position.
class ConfigErrors : public ConfigError {
  using ConfigError::ConfigError;
};

// A text to which errors refer: a file, or one override of the command line.
struct SourceText {
  std::string name;  // "resnet.yaml"
  std::string text;
  int order = 0;       // errors of sources with a lower order come first
  int first_line = 1;  // number of the first line
};

// A part of a source, in bytes.
struct SourceRange {
  std::shared_ptr<const SourceText> source;
  size_t begin = 0, length = 1;

  bool is_override() const { return source->order > 0; }
  int line() const;
  int column() const;
  std::string name() const;  // "resnet.yaml:3:7"
  // Returns the error as above, without "did you mean" if `instead` is empty.
  std::string error(const std::string& text, const std::string& instead = "") const;
};

struct Config;  // config.h
// Returns the text of an error that only a run finds. If the text begins with a given key
// ("schedule.milestones: ..."), adds the line of the key, as above.
std::string placed_text(const Config& config, const ConfigError& error);
// Throws an error with placed_text(). Requires a call within the handler of `error`.
[[noreturn]] void rethrow_placed(const Config& config, const ConfigError& error);

// Collects the errors of one parse. Keeps the first kMax and counts the rest.
class Diagnostics {
 public:
  static constexpr size_t kMax = 100;

  // `instead` is the probably intended text.
  void add(const SourceRange& range, const std::string& text, const std::string& instead = "");
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size() + more_; }
  bool full() const { return entries_.size() == kMax; }
  void throw_if_any();

 private:
  struct Entry {
    SourceRange range;
    std::string text, instead;
  };
  std::vector<Entry> entries_;
  size_t more_ = 0;
};

}  // namespace tessera
