// Every file of tests/errors/config/ is a wrong configuration; the text beside it is what must be
// said. The word before the first hyphen of its name is the class of the mistake. Overrides stand
// in comments at its top: "# override: data.batch=many". TESSERA_WRITE_GOLDEN=1 writes the texts.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/models/config/config.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

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

TEST(WrongConfigs, EachIsRefusedWithExactlyItsText) {
  std::map<std::string, int> classes;
  int count = 0, with_three = 0;
  const std::regex place("(\\S+\\.yaml|command line):[0-9]+:[0-9]+: error: .+");
  for (const auto& entry : fs::directory_iterator(TESSERA_SOURCE_DIR "/tests/errors/config")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = entry.path().filename().string(), text = read_file(entry.path());
    const std::string errors = errors_of(text, name, overrides_in(text));
    const fs::path golden = fs::path(entry.path()).replace_extension(".txt");
    if (std::getenv("TESSERA_WRITE_GOLDEN") != nullptr) std::ofstream(golden) << errors;
    EXPECT_NE(errors, "") << name << " was accepted";
    EXPECT_EQ(errors, read_file(golden)) << name;
    std::istringstream lines(errors);
    int places = 0;
    for (std::string line; std::getline(lines, line);) places += std::regex_match(line, place);
    EXPECT_GE(places, 1) << name << "\n" << errors;
    with_three += places >= 3;
    ++classes[name.substr(0, name.find('-'))];
    ++count;
  }
  EXPECT_GE(count, 120);
  EXPECT_GE(with_three, 40);
  for (const auto& [name, files] : classes) EXPECT_GE(files, 8) << name;
  EXPECT_GE(classes.size(), 18u);
}

TEST(WrongConfigs, LargerThanAMebibyte) {
  const size_t size = (1u << 20) + 1;
  const auto many = [&](char c) { return std::string(size, c); };
  for (const std::string& text :
       {many(' '), many('\n'), fmt::format("#{}", many('x')), fmt::format("run: {{dir: {}}}", many('x')),
        many('['), fmt::format("run: {{dir: \"{}\"}}", many('x')),
        fmt::format("seed: 1\n{}", many('\0')), many('\xff')})
    EXPECT_TRUE(errors_of(text, "large.yaml", {})
                    .starts_with("large.yaml:1:1: error: is larger than 1 MiB; a configuration"));
  EXPECT_EQ(errors_of(std::string(1u << 20, '\n'), "a.yaml", {}), "");
}

// Mistypings of a word: a letter left out, doubled, replaced by its neighbour on the keyboard, put
// in, or swapped with the next one.
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

// The first suggestion for a key that does not exist, "" when there is none.
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
