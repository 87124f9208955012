// Plans for every convolution of every network's training step on a described GPU of each
// generation: compares cuDNN's answers with tests/golden/conv_plans.txt. No GPU is needed. Skipped
// without cuDNN. For another cuDNN version than the table's, each case only needs to have a plan.
#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

#if TESSERA_CUDA
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/graph/capture.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/tests/layers/conv_plan.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

constexpr const char* kDevices[] = {"A100", "RTX3090", "RTX4090", "H100",
                                    "H200", "B200",    "RTX5090"};
constexpr const char* kTable = TESSERA_SOURCE_DIR "/tests/golden/conv_plans.txt";
constexpr const char* kMade = TESSERA_BINARY_DIR "/conv_plans.txt";

using Cases = std::map<std::string, ConvRequest>;

void add_cases(Cases& cases, const std::string& model, int64_t batch) {
  testing_zoo::ZooStep step(model, testing_zoo::natural_options(model), batch);
  const Graph graph = capture(step.function(), step.specs());
  for (const Node& node : graph.nodes)
    if (const auto request = conv_request(*node.op, graph.input_specs(node)))
      cases.emplace(conv_text(*request), *request);
}

const Cases& all_cases() {
  static const Cases cases = [] {
    Cases found;
    for (const std::string& model : model_names()) add_cases(found, model, 32);
    add_cases(found, "resnet50", 256);
    return found;
  }();
  return cases;
}

struct Table {
  std::map<std::string, char> letters;  // for cuDNN's notes of a plan
  std::string rows;
  std::vector<std::string> without_plan;

  void add(const std::string& text, const ConvRequest& request) {
    rows += text + "\n ";
    constexpr std::pair<const char*, DType> kPrecisions[] = {
        {"f32", DType::f32}, {"; tf32", DType::f32}, {"; bf16", DType::bf16}};
    for (const auto& [precision, dtype] : kPrecisions) {
      rows += precision;
      ConvRequest asked = request;
      asked.dtype = dtype;
      for (const char* device : kDevices) {
        const auto plan = conv_plan(asked, gpu_profile(device), {.tf32 = *precision == ';'});
        if (!plan) without_plan.push_back(fmt::format("{} on {}", text, device));
        rows += plan ? fmt::format(" {}:{}{}", plan->engine, plan->workspace_bytes,
                                   letter(plan->notes_text()))
                     : " none";
      }
    }
    rows += '\n';
  }
  std::string text() const {
    std::string all = fmt::format(
        "{}\nThe plan for each convolution of the zoo, batch 32, and of ResNet-50, batch 256,\n"
        "as engine:workspace bytes and a letter for what is noted of its numbers, in float32,\n"
        "TF32 and bfloat16, deterministic, at most 1 GiB, on {},\n"
        "as they are described in runtime/cuda/profiles/.\n\n",
        version(), fmt::join(kDevices, " "));
    for (const auto& [notes, name] : letters) all += fmt::format("{}: {}\n", name, notes);
    return all + '\n' + rows;
  }
  static std::string version() { return "cuDNN " + cuda_version_text(dnn().version, 10000); }

 private:
  char letter(const std::string& notes) {
    const char next = static_cast<char>('a' + letters.size());
    return letters.emplace(notes, next).first->second;
  }
};

// Compares every tenth convolution. TESSERA_LONG_TESTS=1 compares all, which takes minutes, and
// writes the table.
TEST(CudaConvPlans, EveryConvolutionOfTheZooHasTheCommittedPlan) {
  if (const std::string fault = cuda_libraries().dnn.fault; !fault.empty()) GTEST_SKIP() << fault;
  const bool all = std::getenv("TESSERA_LONG_TESTS") != nullptr;
  std::stringstream committed;
  committed << std::ifstream(kTable).rdbuf();
  const std::string table = committed.str(), version = table.substr(0, table.find('\n'));
  Table made;
  for (std::string line; !all && std::getline(committed, line);)
    if (line.size() > 3 && line.substr(1, 2) == ": ") made.letters[line.substr(3)] = line[0];
  size_t number = 0, missing = 0;
  for (const auto& [text, request] : all_cases()) {
    if (!all && number++ % 10 != 0) continue;
    const size_t before = made.rows.size();
    made.add(text, request);
    missing += table.find('\n' + made.rows.substr(before)) == table.npos;
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(made.without_plan, "\n")), "");
  if (!table.empty() && version != Table::version())
    GTEST_SKIP() << "every case has a plan; the table is of " << version << ", here is "
                 << Table::version();
  if (all ? made.text() == table : missing == 0) return;
  if (all) std::ofstream(kMade) << made.text();
  FAIL() << missing << " other plans are taken than the table says; look at the difference with "
         << "TESSERA_LONG_TESTS=1, and if it is meant: cp " << kMade << " " << kTable;
}

// Planning for an absent GPU uses the ops' own answers.
TEST(CudaConvPlans, OpsPlanWithTheTrueWorkspace) {
  if (const std::string fault = cuda_libraries().dnn.fault; !fault.empty()) GTEST_SKIP() << fault;
  testing_zoo::ZooStep step("resnet20", testing_zoo::natural_options("resnet20"), 32);
  const Graph graph = capture(step.function(), step.specs());
  for (const GpuSettings& settings :
       {GpuSettings{}, GpuSettings{.tf32 = false}, GpuSettings{.workspace = 0}}) {
    size_t convolutions = 0;
    const DeviceProperties& properties = gpu_profile("A100");
    const Target target{.device = {DeviceKind::gpu, 0}, .properties = &properties, .gpu = settings};
    for (const Node& node : graph.nodes) {
      const Specs in = graph.input_specs(node);
      const auto request = conv_request(*node.op, in);
      if (!request) continue;
      ++convolutions;
      const auto plan = conv_plan(*request, properties, settings);
      const std::vector<Algorithm> all = node.op->algorithms(in, target);
      ASSERT_EQ(all.front().name == "cudnn", plan.has_value()) << conv_text(*request);
      EXPECT_EQ(all.back().name, "direct");
      // The hand-written loops run if an address is not aligned, in the same scratch.
      const size_t loops = all.back().scratch_bytes;
      EXPECT_EQ(all.front().scratch_bytes, plan ? std::max(plan->workspace_bytes, loops) : loops);
    }
    EXPECT_EQ(convolutions, 56u);
  }
}

}  // namespace
}  // namespace tessera
#endif
