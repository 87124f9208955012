#include "tessera/tools/ablation.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "tessera/graph/lower.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/study/plan.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/report.h"
#include "tessera/runtime/thread_pool.h"
#include "tessera/tools/output.h"

namespace tessera {
namespace {

constexpr int64_t kRounds = 3;

const char* words_for(const std::string& pass) {
  if (pass == "in_place") return " (outputs reuse the bytes of inputs used for the last time)";
  if (pass == "order_updates") return " (each update as soon as its gradient is computed)";
  return "";
}

// Throws in eager mode, whose steps have no plan and so no parts to disable.
void require_graph(const Config& config) {
  if (config.mode == Mode::kEager)
    throw ConfigError(
        "mode: --ablation disables parts of a plan, and eager mode has no plan; set mode: graph");
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns what a command of this program writes to standard output.
std::string output_of(const std::vector<std::string>& words, const std::string& max_isa) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<const char*> arguments = {self.c_str()};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  std::string command = shell_command(static_cast<int>(arguments.size()), arguments.data());
  if (!max_isa.empty()) command = fmt::format("TESSERA_MAX_ISA={} {}", max_isa, command);
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr)
    throw DeviceError(
        fmt::format("bench: cannot start a process: {}; raise the process limit of the user or the "
                    "container (ulimit -u)",
                    std::strerror(errno)));
  std::string text;
  char piece[4096];
  while (const size_t got = std::fread(piece, 1, sizeof piece, pipe)) text.append(piece, got);
  if (::pclose(pipe) != 0)
    throw Error("bench: a run of --ablation failed; its error message is above");
  return text;
}

struct Measured {
  std::string name;
  int64_t arena = 0, bytes = 0;
  std::vector<double> times = {};  // ms of a step or of planning, in each round

  // The fastest round counts, because other programs can only make a round slower.
  double fastest() const { return *std::ranges::min_element(times); }
  double spread() const { return *std::ranges::max_element(times) / fastest() - 1; }
};

// Measures each variant once per round: measure(variant, row) adds a time and sets the bytes.
template <class Measure>
std::vector<Measured> in_turn(const std::vector<Variant>& what, int64_t rounds, Measure&& measure) {
  std::vector<Measured> all;
  for (const Variant& variant : what) all.push_back({variant.name});
  for (int64_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < what.size(); ++i) measure(what[i], all[i]);
  return all;
}

void print_table(const char* time, const std::vector<Measured>& all, bool json) {
  const std::string title = fmt::format("{} ms", time), key = fmt::format("{}_ms", time);
  Table table({{"name", "", true},
               {key.c_str(), title.c_str()},
               {"spread", "spread"},
               {nullptr, "ratio"},
               {"arena_bytes", "arena"},
               {nullptr, "ratio"},
               {"total_bytes", "total"}});
  const Measured& whole = all.front();
  for (const Measured& row : all)
    table.add({row.name, number(row.fastest(), 2, 4), percent(row.spread(), 1, 4),
               number(row.fastest() / whole.fastest(), 2), byte_count(row.arena, 2),
               number(static_cast<double>(row.arena) / static_cast<double>(whole.arena), 2),
               byte_count(row.bytes, 2)});
  write_out(json ? table.json().text() + "\n" : table.text());
}

}  // namespace

std::vector<Variant> variants(const Config& config, bool timed) {
  const std::vector<std::string> passes = pass_names();
  std::vector<Variant> all{{fmt::format("as configured, planner {}", config.memory.planner)}};
  for (const std::string& pass : passes)
    all.push_back({"without " + pass + words_for(pass), {pass}});
  all.push_back({"without any pass", passes});
  for (const char* planner : {"in_order", "none"})
    if (config.memory.planner != planner)
      all.push_back({fmt::format("planner {}{}", planner,
                                 std::strcmp(planner, "none") == 0 ? ": no byte shared" : ""),
                     {},
                     {fmt::format("memory.planner={}", planner)}});
  if (config.precision == Precision::float32)
    all.push_back({"activations in bfloat16", {}, {"precision=bf16"}});
  if (!timed) return all;
  if (has_native_kernels() && config.cpu.kernels != CpuKernels::eigen)
    all.push_back({"kernels eigen", {}, {"cpu.kernels=eigen"}});
  if (has_native_kernels() && config.cpu.kernels != CpuKernels::eigen &&
      config.cpu.winograd != Winograd::off)
    all.push_back({"without Winograd convolutions", {}, {"cpu.winograd=off"}});
  const bool needs_native = config.cpu.kernels == CpuKernels::native;
  const bool pairs = config.precision == Precision::bf16;  // only they differ with avx512_bf16
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::baseline})
    if (isa < current_isa() && (isa != Isa::avx512 || pairs) &&
        !(needs_native && isa == Isa::baseline))
      all.push_back({fmt::format("instruction set {}", isa_name(isa)), {}, {}, isa_name(isa)});
  const int threads = config.threads == 0 ? available_cores() : config.threads;
  if (threads > 1) all.push_back({"one thread", {}, {"threads=1"}});
  return all;
}

void print_plan_ablation(const std::string& config, const std::vector<std::string>& overrides,
                         bool json) {
  const Config whole = load_config(config, overrides);
  require_graph(whole);
  const auto measure = [&](const Variant& variant, Measured& row) {
    const Config changed = load_config(config, joined(overrides, variant.overrides));
    const auto start = std::chrono::steady_clock::now();
    const PlanReport report =
        plan({changed, Purpose::training, {}, {.disabled_passes = variant.disabled_passes}});
    row.times.push_back(milliseconds_since(start));
    row.arena = report.arena, row.bytes = report.need();
  };
  print_table("plan", in_turn(variants(whole, false), kRounds, measure), json);
}

void print_bench_ablation(const std::string& config, const std::vector<std::string>& overrides,
                          int64_t steps, int64_t rounds, bool json) {
  const Config whole = load_config(config, overrides);
  require_graph(whole);
  const auto measure = [&](const Variant& variant, Measured& row) {
    std::vector<std::string> words{"bench", "--json",  "--config",
                                   config,  "--steps", std::to_string(steps)};
    for (const std::string& pass : variant.disabled_passes)
      words.insert(words.end(), {"--disable-pass", pass});
    words = joined(joined(words, overrides), variant.overrides);
    const Json result = Json::parse(output_of(words, variant.max_isa));
    row.times.push_back(static_cast<double>(result["step_us"].integer()) / 1000);
    row.arena = result["arena_bytes"].integer(), row.bytes = result["total_bytes"].integer();
  };
  print_table("step", in_turn(variants(whole, true), rounds > 0 ? rounds : kRounds, measure), json);
}

}  // namespace tessera
