#include "tessera/models/run/environment.h"

#include <cstdio>

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

namespace tessera {
namespace {

TEST(Environment, IsJson) {
  const YAML::Node json = YAML::Load(environment_json());  // JSON is YAML
  EXPECT_EQ(json["devices"][0]["name"].as<std::string>(), "cpu:0");
  EXPECT_GT(json["cores"].as<int>(), 0);
  for (const char* key : {"tessera", "compiler", "system", "instruction_set", "started"})
    EXPECT_FALSE(json[key].as<std::string>().empty()) << key;
}

TEST(Environment, ACommandThatAShellReadsBack) {
  const char* words[] = {"trainer", "--config", "a b.yaml", "it's", "", "data.augment=[{flip: h}]"};
  const std::string line = shell_command(6, words);
  EXPECT_EQ(line, "trainer --config 'a b.yaml' 'it'\\''s' '' 'data.augment=[{flip: h}]'");
  std::FILE* pipe = popen(("printf '%s\\n' " + line).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  for (int c; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  pclose(pipe);
  EXPECT_EQ(said, "trainer\n--config\na b.yaml\nit's\n\ndata.augment=[{flip: h}]\n");
}

}  // namespace
}  // namespace tessera
