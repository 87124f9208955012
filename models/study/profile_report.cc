// A profile as text, as JSON and as a trace.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "tessera/models/run/profile_costs.h"
#include "tessera/models/study/profile.h"

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

std::string spread_text(const Spread& ms) {
  return fmt::format("{:.3f} ms ({:.3f} to {:.3f})", ms.median, ms.min, ms.max);
}

Json spread_json(const Spread& spread) {
  return Json::object({{"min", rounded(spread.min, 4)},
                       {"median", rounded(spread.median, 4)},
                       {"max", rounded(spread.max, 4)}});
}

Cell part_of(double value, double peak) {
  return percent(peak > 0 && value > 0 ? value / peak : NAN, 0);
}

Cell gflops_of(const Work& work) {
  const double rate = work.gflops();
  return {rate > 0 ? fmt::format("{:.2f}", rate) : "", rounded(rate, 3)};
}

Table table_of(const Profile& profile, const Kinds& kinds) {
  Table table({{"op", "kind", true},
               {"ops", "ops"},
               {"us", "ms"},
               {"share", "share"},
               {"flops", nullptr},
               {"bytes", nullptr},
               {"gflops", "GFLOP/s"},
               {nullptr, "peak"},
               {"gbytes", "GB/s"},
               {nullptr, "copy"}});
  for (const auto& [name, work] : kinds)
    table.add({name,
               work.nodes,
               {fmt::format("{:.3f}", work.us / 1000), rounded(work.us, 4)},
               percent(share(profile, work.us), 1, 5),
               work.cost.flops,
               work.cost.bytes_read + work.cost.bytes_written,
               gflops_of(work),
               part_of(work.us_at_peak, work.us),
               number(work.gbytes(), 2, 3),
               part_of(work.gbytes(), profile.peaks.copy_gbytes)});
  return table;
}

Table table_of(const Profile& profile, const std::vector<ProfiledOp>& ops) {
  Table table({{"node", "node"},
               {"op", nullptr},
               {"module_path", nullptr},
               {"phase", "phase", true},
               {"algorithm", "algorithm", true},
               {"shape", nullptr},
               {"dtype", "dtype", true},
               {"us", "us"},
               {nullptr, "min"},
               {nullptr, "max"},
               {"share", "share"},
               {"flops", nullptr},
               {"bytes_read", nullptr},
               {"bytes_written", nullptr},
               {"gflops", "GFLOP/s"},
               {nullptr, "peak"},
               {"gbytes", "GB/s"},
               {nullptr, "copy"},
               {nullptr, "op, module; shape", true}});
  for (const ProfiledOp& op : ops) {
    Work work;
    work.add(op, profile.peaks);
    table.add({op.node,
               op.op,
               op.module_path,
               op.phase,
               op.algorithm,
               op.shape,
               op.dtype,
               {fmt::format("{:.1f}", op.us.median), spread_json(op.us)},
               number(op.us.min, 1),
               number(op.us.max, 1),
               percent(share(profile, work.us), 1, 5),
               op.cost.flops,
               op.cost.bytes_read,
               op.cost.bytes_written,
               gflops_of(work),
               part_of(work.us_at_peak, work.us),
               number(work.gbytes(), 2, 3),
               part_of(work.gbytes(), profile.peaks.copy_gbytes),
               op_title(op.op, op.module_path) + "; " + op.shape});
  }
  return table;
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

Report Profile::report(size_t most) const {
  std::vector<ProfiledOp> slowest = ops;
  std::ranges::stable_sort(slowest, std::greater(), [](const auto& op) { return op.us.median; });
  if (most > 0 && most < slowest.size()) slowest.resize(most);
  Report report;
  report.line(fmt::format("{} steps of {} images", steps, batch));
  if (peaks.gflops > 0) report.line(peaks.text() + " from memory; reads from caches are faster");
  report.add("format", kProfileFormat)
      .add("device", device)
      .add("threads", threads)
      .add("kernels", kernels)
      .add("isa", isa)
      .add("batch", batch)
      .add("steps", steps)
      .add("peak_gflops", rounded(peaks.gflops, 2))
      .add("peak_gflops_of_thread", rounded(peaks.gflops_of_thread, 2))
      .add("peak_bf16_gflops", rounded(peaks.bf16_gflops, 2))
      .add("peak_copy_gbytes", rounded(peaks.copy_gbytes, 2))
      .add("step_ms", "step", {spread_text(step_ms), spread_json(step_ms)})
      .add("observed_step_ms", "timed op by op",
           {spread_text(observed_ms), spread_json(observed_ms)})
      .add("ops_ms", "of which in ops", {spread_text(ops_ms), spread_json(ops_ms)},
           fmt::format("sum of the op medians {:.3f} ms", ops_us() / 1000))
      .add("ops_us", rounded(ops_us(), 4));
  if (!costs.empty())
    report
        .add("estimate_ms", "estimated", number(estimate_ms, 3, 4, "ms"),
             fmt::format("{:+.1f} % (memory.cost_model: {})",
                         ops_us() > 0 ? 100 * (1000 * estimate_ms / ops_us() - 1) : 0, costs))
        .add("costs", costs);
  report.add("kinds", "", table_of(*this, kinds_of(*this)))
      .add("ops", table_of(*this, ops).json())
      .add(nullptr, "", table_of(*this, slowest));
  if (slowest.size() < ops.size())
    report.line(fmt::format("and {} ops more; --ops 0 shows all", ops.size() - slowest.size()));
  return report;
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
