#include "tessera/models/run/environment.h"

#include <cstdio>

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "tessera/runtime/shared_library.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

TEST(Environment, IsJson) {
  const YAML::Node json = YAML::Load(environment_json());  // JSON is YAML
  EXPECT_EQ(json["devices"][0]["name"].as<std::string>(), "cpu:0");
  EXPECT_GT(json["cores"].as<int>(), 0);
  for (const char* key : {"tessera", "compiler", "system", "instruction_set", "started"})
    EXPECT_FALSE(json[key].as<std::string>().empty()) << key;
}

TEST(Environment, NamesWhatChangesBits) {
  const testing_checkpoint::TemporaryFolder folder;
  EXPECT_NE(environment_changes(folder.path(), {}).find("no readable env.json"), std::string::npos);
  const auto changes = [&](const std::string& text) {
    testing_checkpoint::write_all(folder.path("env.json"), text);
    return environment_changes(folder.path(), {});
  };
  EXPECT_EQ(changes(environment_json()), "");
  EXPECT_EQ(changes("{\"cores\": 4096, \"host\": \"other\", \"started\": \"then\"}"), "");
  const std::string now = "glibc " + std::string(gnu_get_libc_version());
  EXPECT_EQ(changes("{\"c_library\": \"glibc 1.0\", \"kernels\": null}")
                .find("c_library is \"" + now + "\" and was \"glibc 1.0\", kernels is \""),
            0u);
  EXPECT_EQ(changes("{\"device\": \"A GPU\"}"), "device is \"cpu\" and was \"A GPU\"");
  EXPECT_EQ(changes("{\"build\": \"12ab\"}"),
            "build is \"" + program_build_id() + "\" and was \"12ab\"");
  EXPECT_EQ(program_build_id().size(), 40u);
  const auto isa = [](const char* name, const char* kernels) {
    return facts_of_bits(fmt::format("{{\"instruction_set\": \"{}\", \"kernels\": \"{}\"}}", name,
                                     kernels))["instruction_set"];
  };
  EXPECT_EQ(isa("avx2", "native"), isa("avx512", "native"));
  EXPECT_EQ(isa("avx2", "native"), isa("avx512_bf16", "native"));
  EXPECT_NE(isa("avx2", "eigen"), isa("avx512", "eigen"));
  EXPECT_NE(isa("baseline", "eigen"), isa("avx512", "native"));
  EXPECT_NE(changes("damaged").find("no readable env.json"), std::string::npos);
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
