// A profile as text, as JSON and as a trace.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tessera/models/study/profile.h"
#include "tessera/models/training/profile_costs.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

// The work of one line: an op or all ops of a kind.
struct Work {
  double us = 0;
  double us_at_peak = 0;  // for the flops alone
  Cost cost;
  int nodes = 0;
  void add(const ProfiledOp& op, const MachinePeaks& peaks) {
    us += op.us.median;
    if (const double peak = op.pairs ? peaks.bf16_gflops : peaks.gflops; peak > 0)
      us_at_peak += static_cast<double>(op.cost.flops) / peak / 1000;
    cost.flops += op.cost.flops;
    cost.bytes_read += op.cost.bytes_read;
    cost.bytes_written += op.cost.bytes_written;
    ++nodes;
  }
  double gflops() const { return rate(static_cast<double>(cost.flops)); }
  double gbytes() const { return rate(static_cast<double>(cost.bytes_read + cost.bytes_written)); }

 private:
  double rate(double amount) const { return us > 0 ? amount / us / 1000 : 0; }
};

Work work_of(const Profile& profile, const ProfiledOp& op) {
  Work work;
  work.add(op, profile.peaks);
  return work;
}

using Kinds = std::vector<std::pair<std::string, Work>>;

// Returns the kinds of ops, slowest first.
Kinds kinds_of(const Profile& profile) {
  std::map<std::string, Work> by_name;
  for (const ProfiledOp& op : profile.ops) by_name[op.op].add(op, profile.peaks);
  Kinds kinds(by_name.begin(), by_name.end());
  std::ranges::stable_sort(kinds,
                           [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  return kinds;
}

double share(const Profile& profile, double us) {
  const double all = profile.ops_us();
  return all > 0 ? us / all : 0;
}

std::string percent_of(double value, double peak) {
  return peak > 0 && value > 0 ? fmt::format("{:.0f} %", 100 * value / peak) : "";
}

constexpr const char* kRateTitles = "  share  GFLOP/s   peak     GB/s   copy";

std::string rates_text(const Profile& profile, const Work& work) {
  const std::string gflops = work.gflops() > 0 ? fmt::format("{:.2f}", work.gflops()) : "";
  return fmt::format("{:>5.1f} % {:>8} {:>6} {:>8.2f} {:>6}", 100 * share(profile, work.us), gflops,
                     percent_of(work.us_at_peak, work.us), work.gbytes(),
                     percent_of(work.gbytes(), profile.peaks.copy_gbytes));
}

std::string spread_text(const Spread& ms) {
  return fmt::format("{:.3f} ms ({:.3f} to {:.3f})", ms.median, ms.min, ms.max);
}

Json spread_json(const Spread& spread) {
  return Json::object({{"min", rounded(spread.min, 4)},
                       {"median", rounded(spread.median, 4)},
                       {"max", rounded(spread.max, 4)}});
}

std::string kinds_text(const Profile& profile) {
  std::string text = fmt::format("{:>10} {}  {:>5}  {}\n", "ms", kRateTitles, "ops", "kind");
  for (const auto& [name, work] : kinds_of(profile))
    text += fmt::format("{:>10.3f} {}  {:>5}  {}\n", work.us / 1000, rates_text(profile, work),
                        work.nodes, name);
  return text;
}

std::string ops_text(const Profile& profile, size_t most) {
  std::vector<const ProfiledOp*> longest;
  for (const ProfiledOp& op : profile.ops) longest.push_back(&op);
  std::ranges::stable_sort(
      longest, [](const auto* a, const auto* b) { return a->us.median > b->us.median; });
  const size_t shown = most == 0 ? longest.size() : std::min(most, longest.size());
  std::string text =
      fmt::format("{:>10} {:>9} {:>9} {}  {:<12} {:<8} {:<8} {}\n", "us", "min", "max", kRateTitles,
                  "algorithm", "dtype", "phase", "node, op, module; shape");
  for (size_t i = 0; i < shown; ++i) {
    const ProfiledOp& op = *longest[i];
    text +=
        fmt::format("{:>10.1f} {:>9.1f} {:>9.1f} {}  {:<12} {:<8} {:<8} {} {}; {}\n", op.us.median,
                    op.us.min, op.us.max, rates_text(profile, work_of(profile, op)), op.algorithm,
                    op.dtype, op.phase, op.node, op_title(op.op, op.module_path), op.shape);
  }
  if (shown < longest.size())
    text += fmt::format("and {} ops more; --ops 0 shows all\n", longest.size() - shown);
  return text;
}

Json op_json(const Profile& profile, const ProfiledOp& op) {
  const Work work = work_of(profile, op);
  return Json::object({{"node", op.node},
                       {"op", op.op},
                       {"module_path", op.module_path},
                       {"phase", op.phase},
                       {"algorithm", op.algorithm},
                       {"shape", op.shape},
                       {"dtype", op.dtype},
                       {"us", spread_json(op.us)},
                       {"share", rounded(share(profile, work.us), 5)},
                       {"flops", op.cost.flops},
                       {"bytes_read", op.cost.bytes_read},
                       {"bytes_written", op.cost.bytes_written},
                       {"gflops", rounded(work.gflops(), 3)},
                       {"gbytes", rounded(work.gbytes(), 3)}});
}

Json kind_json(const Profile& profile, const std::string& name, const Work& work) {
  return Json::object({{"op", name},
                       {"ops", work.nodes},
                       {"us", rounded(work.us, 4)},
                       {"share", rounded(share(profile, work.us), 5)},
                       {"flops", work.cost.flops},
                       {"bytes", work.cost.bytes_read + work.cost.bytes_written},
                       {"gflops", rounded(work.gflops(), 3)},
                       {"gbytes", rounded(work.gbytes(), 3)}});
}

// Returns a completed event in the trace format; times in microseconds.
Json event(const std::string& name, const char* category, int row, const TimeSpan& span,
           std::vector<Json::Member> details) {
  return Json::object({{"name", name},
                       {"cat", category},
                       {"ph", "X"},
                       {"pid", 1},
                       {"tid", row},
                       {"ts", rounded(span.begin, 3)},
                       {"dur", rounded(span.end - span.begin, 3)},
                       {"args", Json::object(std::move(details))}});
}

Json row_name(const char* kind, int row, const std::string& name) {
  return Json::object({{"name", kind},
                       {"ph", "M"},
                       {"pid", 1},
                       {"tid", row},
                       {"args", Json::object({{"name", name}})}});
}

}  // namespace

std::string Profile::text(size_t most) const {
  std::string text = fmt::format("{} steps of {} images\n", steps, batch);
  if (peaks.gflops > 0) text += peaks.text() + " from memory; reads from caches are faster\n";
  text += fmt::format(
      "step {}\ntimed op by op {}, of which {} in ops; sum of the op medians {:.3f} ms\n"
      "estimated {:.3f} ms (memory.cost_model: {}), {:+.1f} %\n\n",
      spread_text(step_ms), spread_text(observed_ms), spread_text(ops_ms), ops_us() / 1000,
      estimate_ms, costs, ops_us() > 0 ? 100 * (1000 * estimate_ms / ops_us() - 1) : 0);
  return text + kinds_text(*this) + "\n" + ops_text(*this, most);
}

std::string Profile::json() const {
  std::vector<Json> all_ops, all_kinds;
  for (const ProfiledOp& op : ops) all_ops.push_back(op_json(*this, op));
  for (const auto& [name, work] : kinds_of(*this))
    all_kinds.push_back(kind_json(*this, name, work));
  return Json::object({{"format", kProfileFormat},
                       {"device", device},
                       {"threads", threads},
                       {"kernels", kernels},
                       {"isa", isa},
                       {"batch", batch},
                       {"steps", steps},
                       {"peak_gflops", rounded(peaks.gflops, 2)},
                       {"peak_gflops_of_thread", rounded(peaks.gflops_of_thread, 2)},
                       {"peak_bf16_gflops", rounded(peaks.bf16_gflops, 2)},
                       {"peak_copy_gbytes", rounded(peaks.copy_gbytes, 2)},
                       {"step_ms", spread_json(step_ms)},
                       {"observed_step_ms", spread_json(observed_ms)},
                       {"ops_ms", spread_json(ops_ms)},
                       {"ops_us", rounded(ops_us(), 4)},
                       {"estimate_ms", rounded(estimate_ms, 4)},
                       {"costs", costs},
                       {"kinds", Json::list(all_kinds)},
                       {"ops", Json::list(all_ops)}})
      .text(1);
}

// Writes one event at a time: all events as one Json would take many times the bytes of the text.
std::string Profile::trace() const {
  constexpr int kStepRow = 1, kOpRow = 2;
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" +
                     row_name("process_name", 0, "training step on " + device).text();
  const auto add = [&](const Json& one) { text += ",\n" + one.text(); };
  add(row_name("thread_name", kStepRow, "steps"));
  add(row_name("thread_name", kOpRow, "ops"));
  for (const TimeSpan& span : plain_steps) add(event("step", "step", kStepRow, span, {}));
  for (const TimeSpan& span : observed_steps)
    add(event("step, op by op", "step", kStepRow, span, {}));
  for (size_t i = 0; i < op_times.size(); ++i) {
    const ProfiledOp& op = ops[i % ops.size()];
    add(event(op_title(op.op, op.module_path), op.phase.c_str(), kOpRow, op_times[i],
              {{"node", op.node},
               {"algorithm", op.algorithm},
               {"shape", op.shape},
               {"flops", op.cost.flops},
               {"bytes", op.cost.bytes_read + op.cost.bytes_written}}));
  }
  return text + "\n]}\n";
}

}  // namespace tessera
