// Compares errors with tests/errors/config/, which has wrong configurations and their expected
// errors (wrong_configs.h). Overrides are comments at the top: "# override: data.batch=many".
// TESSERA_WRITE_GOLDEN=1 writes the actual errors into these files.
#include "tessera/tests/models/config/wrong_configs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/models/config/config.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/diagnostics.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string errors_of(const std::string& text, const std::string& name,
                      const std::vector<std::string>& overrides) {
  try {
    parse_config(text, name, overrides);
  } catch (const ConfigErrors& errors) {
    return std::string(errors.what()) + "\n";
  }
  return "";
}

std::vector<std::string> overrides_in(const std::string& text) {
  constexpr std::string_view kStart = "# override: ";
  std::vector<std::string> overrides;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.starts_with(kStart);)
    overrides.push_back(line.substr(kStart.size()));
  return overrides;
}

// Counts the errors with a position: "NAME.yaml:2:3: error: ...".
int places_in(const std::string& errors) {
  static const std::regex place("(\\S+\\.yaml|command line):[0-9]+:[0-9]+: error: .+");
  int places = 0;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) places += std::regex_match(line, place);
  return places;
}

TEST(WrongConfigs, EachIsRefusedWithExactlyItsText) {
  const bool write = std::getenv("TESSERA_WRITE_GOLDEN") != nullptr;
  size_t classes = 0, count = 0, with_three = 0;
  for (const auto& entry : fs::directory_iterator(TESSERA_SOURCE_DIR "/tests/errors/config")) {
    std::vector<WrongConfig> cases = read_wrong_configs(entry.path());
    for (WrongConfig& wrong : cases) {
      const std::string text = wrong.text();
      const std::string errors = errors_of(text, wrong.name, overrides_in(text));
      if (write) wrong.says = errors;
      EXPECT_TRUE(wrong.name.starts_with(entry.path().stem().string() + "-")) << wrong.name;
      EXPECT_NE(errors, "") << wrong.name << " was accepted";
      EXPECT_EQ(errors, wrong.says) << wrong.name;
      EXPECT_GE(places_in(errors), 1) << wrong.name << "\n" << errors;
      with_three += places_in(errors) >= 3;
    }
    if (write) write_wrong_configs(entry.path(), cases);
    EXPECT_GE(cases.size(), 8u) << entry.path();
    count += cases.size();
    ++classes;
  }
  EXPECT_GE(count, 120u);
  EXPECT_GE(with_three, 40u);
  EXPECT_GE(classes, 18u);
}

TEST(WrongConfigs, LargerThanAMebibyte) {
  const size_t size = (1u << 20) + 1;
  const auto many = [&](char c) { return std::string(size, c); };
  for (const std::string& text : {many(' '), many('\n'), fmt::format("#{}", many('x')),
                                  fmt::format("run: {{dir: {}}}", many('x')), many('['),
                                  fmt::format("run: {{dir: \"{}\"}}", many('x')),
                                  fmt::format("seed: 1\n{}", many('\0')), many('\xff')})
    EXPECT_TRUE(
        errors_of(text, "large.yaml", {})
            .starts_with("large.yaml:1:1: error: a configuration must not be larger than 1 MiB"));
  EXPECT_EQ(errors_of(std::string(1u << 20, '\n'), "a.yaml", {}), "");
}

// Returns mistypings of a word: a letter omitted, doubled, replaced by its neighbour on the
// keyboard, inserted, or swapped with the next one.
std::vector<std::string> mistyped(const std::string& word) {
  const std::vector<std::string> rows{"qwertyuiop", "asdfghjkl", "zxcvbnm", "1234567890"};
  std::vector<std::string> all;
  for (size_t i = 0; i < word.size(); ++i) {
    const std::string before = word.substr(0, i), after = word.substr(i + 1);
    if (word.size() > 1) all.push_back(before + after);
    all.push_back(before + word[i] + word[i] + after);
    if (i + 1 < word.size()) all.push_back(before + word[i + 1] + word[i] + word.substr(i + 2));
    for (const std::string& row : rows) {
      const size_t at = row.find(word[i]);
      if (at == std::string::npos) continue;
      const char neighbour = at > 0 ? row[at - 1] : row[at + 1];
      all.push_back(before + neighbour + after);
      all.push_back(before + word[i] + neighbour + after);
    }
  }
  return all;
}

// Returns the first suggestion for a key that does not exist; "" if there is none.
std::string suggested(const std::string& group, const std::string& leaf) {
  const std::string text = group.empty() ? leaf + ": x" : group + ": {" + leaf + ": x}";
  const std::string errors = errors_of(text, "a.yaml", {});
  const std::string start = "did you mean '";
  const size_t at = errors.find(start);
  if (at == std::string::npos) return "";
  return errors.substr(at + start.size(), errors.find('\'', at + start.size()) - at - start.size());
}

TEST(WrongConfigs, MistypedKeysAreRecognised) {
  Config config;
  const std::vector<ConfigKey> keys = config_keys(config);
  std::vector<std::pair<std::string, std::string>> words;  // group and name
  for (const ConfigKey& key : keys) {
    words.emplace_back(key.group(), key.leaf());
    if (!key.group().empty()) words.emplace_back("", key.group());
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  const auto is_key = [&](const std::string& group, const std::string& leaf) {
    return std::find(words.begin(), words.end(), std::pair(group, leaf)) != words.end();
  };
  int tried[2] = {}, right[2] = {};
  std::string missed;
  for (const auto& [group, leaf] : words) {
    const std::vector<std::string> once = mistyped(leaf);
    for (size_t i = 0; i < once.size(); ++i) {
      const std::vector<std::string> again = mistyped(once[i]);
      const std::string twice = again[(i * 7 + 3) % again.size()];
      for (const auto& [letters, word] : {std::pair(0, once[i]), std::pair(1, twice)}) {
        if (is_key(group, word) || word == leaf) continue;
        const bool found = suggested(group, word) == leaf;
        ++tried[letters];
        right[letters] += found;
        if (!found) missed += " " + group + "." + word;
      }
    }
  }
  std::cout << "one letter: " << right[0] << " of " << tried[0] << ", two letters: " << right[1]
            << " of " << tried[1] << "\n";
  EXPECT_GT(tried[0], 1000);
  EXPECT_GT(tried[1], 1000);
  EXPECT_GE(right[0] + right[1], 0.9 * (tried[0] + tried[1])) << missed;
  EXPECT_GE(right[1], 0.85 * tried[1]) << missed;
}

}  // namespace
}  // namespace tessera
