// Any lines as overrides of a small configuration: see config_fuzz.cc.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "config_text.h"

#include "tessera/models/config/config.h"
#include "tessera/models/config/diagnostics.h"

namespace {

constexpr char kBase[] = R"(seed: 3
model: {name: cnn_bn, widths: [4, 8]}
data: {batch: 16, augment: [{crop: {padding: 4}}, {flip: horizontal}]}
schedule: {name: multistep, milestones: [10ep, 20ep]}
train: {epochs: 2}
)";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> overrides;
  for (std::string line; std::getline(lines, line) && overrides.size() < 16;)
    overrides.push_back(line);
  std::string printed;
  try {
    printed = print_config(parse_config(kBase, "base", overrides));
  } catch (const ConfigErrors& errors) {
    require_printable(errors.what());
    return 0;
  }
  require_round_trip(printed);
  return 0;
}
