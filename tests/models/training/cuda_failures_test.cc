// Any GPU call may fail, at any time: the error names it, nothing is lost, and the process can
// train again. If the GPU is lost, no further call is made. Each failure has its own process.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ostream>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/engine/gpu_double.h"
#include "tessera/tests/models/training/run_files.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;

constexpr int64_t kSteps = 3;  // issued, captured, replayed

// Skips fsync, which takes most of the time of such a small training.
class HastyFiles : public FileSystem {
 public:
  int fsync(int) override { return 0; }
};

// Runs `child` in another process and returns its result.
std::string in_child(const std::function<std::string()>& child) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    std::string said;
    try {
      said = child();
    } catch (const std::exception& error) {
      said = std::string("not expected: ") + error.what();
    }
    const ssize_t wrote = write(ends[1], said.data(), said.size());
    _exit(wrote == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char piece[4096];
  for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;)
    said.append(piece, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(process, &status, 0);
  return status == 0 ? said : fmt::format("the process ended with {}; {}", status, said);
}

std::string text_of(const cuda_double_held& held) {
  return fmt::format("{} bytes, {} pinned, {} streams, {} events, {} graphs, {} captures",
                     held.device_bytes, held.pinned_bytes, held.streams, held.events, held.graphs,
                     held.captures);
}

// The kind of call that fails, when the GPU does its work, and a lower bound on the number of such
// calls.
struct Case {
  const char *name, *kind, *schedule;
  long least;
  Mode mode = Mode::kGraph;
  bool synchronous = false;  // gpu.synchronous

  friend void PrintTo(const Case& one, std::ostream* to) { *to << one.name; }
  bool sticky() const { return std::string_view(kind).starts_with("sticky"); }
  bool memory() const {
    return std::string_view(kind) == "malloc" || std::string_view(kind) == "pinned";
  }
};

// Destructors make these calls. If one fails, the training continues and the resource stays
// allocated.
bool gives_back(std::string_view call) {
  constexpr std::array<std::string_view, 6> kAll = {"cudaFree",         "cudaFreeHost",
                                                    "cudaEventDestroy", "cudaStreamDestroy",
                                                    "cudaGraphDestroy", "cudaGraphExecDestroy"};
  return std::find(kAll.begin(), kAll.end(), call) != kAll.end();
}

// The next call reports failures of these calls, which occur in functions that must not throw.
bool is_silent(std::string_view call) {
  return gives_back(call) || call == "cudaMemGetInfo" || call == "cudaGetDevice";
}

class CudaFailures : public OnGpu, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    if (!double_.here()) GTEST_SKIP() << "only a simulated GPU fails when it is told to";
  }

  Config config(const std::string& dir) const {
    Config config = parse_config(R"(model:
  layers:
    - {conv: {filters: 2, kernel: 3, stride: 4, bias: false}}
    - batch_norm
    - relu
    - flatten
    - {linear: {units: 10}}
data: {name: synthetic, image_size: 16, train_count: 6, test_count: 2, batch: 2, workers: 1}
train: {steps: 3, log_every: 1st}
checkpoint: {every: 2st, keep: 9}
device: gpu
threads: 1
)",
                                 "failures");
    config.run.dir = temporary_.path(dir);
    config.mode = GetParam().mode;
    config.gpu.synchronous = GetParam().synchronous;
    return config;
  }
  void run(const std::string& dir, const TrainOptions& options = {.overwrite = true}) const {
    HastyFiles files;
    TrainOptions all = options;
    all.files = &files;
    train(
        config(dir), [](const std::string&) {}, all);
  }
  // Returns the training's metrics without speed and its last values.
  std::string result(const std::string& dir) const {
    return without_speed(read_all(temporary_.path(dir) + "/metrics.csv")) +
           values_after(temporary_.path(dir), kSteps);
  }

  void find_out_what_is_right();
  // Lets call n of the kind fail. Returns what is then wrong, or kNone if there are fewer calls.
  std::string fault_after(long n) const;
  std::string fault_of(const Error& error, const std::string& failed) const;
  std::string fault_when_lost(const std::string& failed, long calls) const;
  std::string fault_of_the_next() const;

  static constexpr const char* kNone = "none";
  const GpuDouble double_{};
  TemporaryFolder temporary_;
  std::string right_;                // the result of a training
  cuda_double_held held_{};          // the context's resources after it
  std::vector<std::string> places_;  // places of ops: "conv2d at conv0: "

 private:
  const SettingsScope one_{{.threads = 1}};  // a forked process has one thread
};

void CudaFailures::find_out_what_is_right() {
  const std::string said = in_child([&] {
    run("right");
    const cuda_double_held held = double_.held();
    return std::string(reinterpret_cast<const char*>(&held), sizeof held);
  });
  ASSERT_EQ(said.size(), sizeof held_) << said;
  std::memcpy(&held_, said.data(), sizeof held_);
  right_ = result("right");
  const std::string places = in_child([&] {
    std::string lines;
    Config asked = config("right");
    asked.mode = Mode::kGraph;  // has equal ops at equal places
    CompileOptions options;
    if (GetParam().mode == Mode::kEager)
      options.disabled_passes = {"fuse_pointwise", "fuse_epilogues"};
    const auto session = prepared_session({asked, Purpose::training, {}, options});
    for (CompiledStep* step : {&session->train_step(2), &session->evaluation_step(2)})
      for (const Node& node : step->compiled_graph()->graph.nodes)
        lines += op_at(node.op->name(), node.module_path) + ": \n";
    return lines;
  });
  std::istringstream lines(places);
  for (std::string line; std::getline(lines, line);) places_.push_back(line);
  ASSERT_GE(places_.size(), 20u) << places;
}

std::string CudaFailures::fault_of(const Error& error, const std::string& failed) const {
  const std::string text = error.what();
  const bool memory = dynamic_cast<const OutOfMemory*>(&error) != nullptr,
             lost = dynamic_cast<const DeviceLost*>(&error) != nullptr;
  if (dynamic_cast<const DeviceError*>(&error) == nullptr || memory != GetParam().memory() ||
      lost != GetParam().sticky() || error.exit_code() != 4)
    return "it is of the wrong type: " + text;
  if (memory && text.find("out of memory: ") != text.npos)  // the engine's own request
    return text.find("requested for: ") == text.npos ? "it does not say for what: " + text : "";
  // A failed kernel is reported when it is waited for, or when a graph that contains it is
  // launched.
  const bool kernel = std::string_view(GetParam().kind) == "sticky:kernel",
             later = kernel && !GetParam().synchronous &&
                     (std::string_view(GetParam().schedule) != "eager" ||
                      text.starts_with("cudaGraphLaunch: "));
  const bool silent = GetParam().sticky() && is_silent(failed);
  const bool waited = kernel && GetParam().synchronous;  // names the op, not the kernel
  if (!later && !silent && !waited && text.find(failed) == text.npos)
    return fmt::format("it does not name {}: {}", failed, text);
  const bool in_op = !later && !failed.starts_with("cuda");  // a kernel, or a library
  const bool placed = std::any_of(places_.begin(), places_.end(), [&](const std::string& place) {
    return text.starts_with(place);
  });
  return in_op && !placed ? "it names no place: " + text : "";
}

std::string CudaFailures::fault_when_lost(const std::string& failed, long calls) const {
  if (calls > (is_silent(failed) ? 1 : 0))
    return fmt::format("{} calls were made after {}", calls, failed);
  const CheckpointFolder folder(checkpoints_path(temporary_.path("run")));
  const std::optional<int64_t> latest = folder.named("latest");
  for (const int64_t step : folder.steps())
    if (step > latest.value_or(-1) ||
        values_after(temporary_.path("run"), step) != values_after(temporary_.path("right"), step))
      return fmt::format("the checkpoint after step {} is not as it must be", step);
  return "";
}

std::string CudaFailures::fault_of_the_next() const {
  double_.fail("");
  run("run");
  if (result("run") != right_) return "the next training comes to something else";
  const std::string held = text_of(double_.held()), right = text_of(held_);
  return held == right ? "" : fmt::format("held is {}, not {}", held, right);
}

std::string CudaFailures::fault_after(long n) const {
  std::string fault, failed;
  const long before = double_.counts().calls_after_failure;
  bool ended = false;
  double_.fail(fmt::format("{}:{}", GetParam().kind, n).c_str());
  try {
    run("run");
    ended = true;
    failed = double_.failed_call();
    if (failed.empty()) return kNone;
    if (result("run") != right_) fault = "it ends with something else";
  } catch (const Error& error) {
    failed = double_.failed_call();
    fault = fault_of(error, failed);
  }
  const long calls = double_.counts().calls_after_failure - before;
  const cuda_double_held held = double_.held();
  if (fault.empty() && GetParam().sticky())
    fault = fault_when_lost(failed, calls);
  else if (fault.empty() && !gives_back(failed) &&
           (held.device_bytes > held_.device_bytes || held.pinned_bytes > held_.pinned_bytes ||
            held.streams > held_.streams || held.events > held_.events ||
            held.graphs > held_.graphs || held.captures > 0))
    fault = "after it " + text_of(held);
  else if (fault.empty() && !gives_back(failed))
    fault = fault_of_the_next();
  return fault.empty() ? ""
                       : fmt::format("{} ({}): {}", failed, ended ? "no error" : "an error", fault);
}

TEST_P(CudaFailures, AreToldAndNothingIsLost) {
  find_out_what_is_right();
  if (HasFatalFailure()) return;
  long n = 1;
  for (;; ++n) {
    const std::string fault = in_child([&] {
      setenv("TESSERA_CACHE", "off", 1);
      double_.schedule(GetParam().schedule);
      return fault_after(n);
    });
    if (fault == kNone) break;
    EXPECT_EQ(fault, "") << GetParam().kind << ":" << n;
    if (!GetParam().sticky()) continue;
    const std::string resumed = in_child([&] {
      run("run", {.resume = "auto"});
      return result("run") == right_ ? "" : "it comes to something else";
    });
    EXPECT_EQ(resumed, "") << "resumed after " << GetParam().kind << ":" << n;
  }
  EXPECT_GT(n, GetParam().least);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CudaFailures,
    testing::Values(Case{"Call", "call", "eager", 250}, Case{"CallLazy", "call", "lazy", 250},
                    Case{"Malloc", "malloc", "eager", 4}, Case{"Pinned", "pinned", "eager", 1},
                    Case{"StickyCall", "sticky:call", "eager", 250},
                    Case{"StickyKernel", "sticky:kernel", "eager", 60},
                    Case{"StickyKernelLazy", "sticky:kernel", "lazy", 60},
                    Case{"StickyKernelRandom", "sticky:kernel", "random:1", 60},
                    Case{"SynchronousLazy", "sticky:kernel", "lazy", 60, Mode::kGraph, true},
                    Case{"SynchronousEagerMode", "sticky:kernel", "lazy", 60, Mode::kEager, true},
                    Case{"DnnPlan", "dnn:plan", "eager", 10},
                    Case{"DnnRun", "dnn:run", "eager", 5}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera
