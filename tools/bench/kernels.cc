// kernel_bench: speed of the native CPU kernels relative to Eigen's, for every distinct matrix
// product and convolution in the training steps of some networks: a Markdown table on stdout.
// Ratios of median processor times on one thread, run alternately. Built on request: ninja
// kernel_bench;
//
//   kernel_bench [ROUNDS]
//   kernel_bench winograd [ROUNDS]   Winograd's convolutions relative to direct native ones, with
//   the
//                                    largest error of each against float64, over the largest value
#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "tessera/engine/op.h"
#include "tessera/engine/prepare.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/models/config/config.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/session.h"

namespace tessera {
namespace {

double seconds(AlgorithmRun& run, int times) {
  const std::clock_t start = std::clock();
  for (int i = 0; i < times; ++i) run.run();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / times;
}

bool is(const Algorithm& algorithm, std::string_view name) {
  return algorithm.name.starts_with(name);
}

// Returns the algorithm of that name: "winograd" matches any of Winograd's, "native" the first one
// by hand that is not Winograd's.
std::optional<Algorithm> find(const std::vector<Algorithm>& all, std::string_view name) {
  for (const Algorithm& one : all)
    if (name == "native" ? !is(one, "winograd") && !is(one, "eigen") : is(one, name)) return one;
  return std::nullopt;
}

// Returns the speed of `a` relative to `b`.
double ratio(AlgorithmRun& a, AlgorithmRun& b, int rounds) {
  seconds(b, 1);
  const int times = std::clamp(static_cast<int>(0.004 / (seconds(a, 1) + 1e-6)), 1, 1000);
  std::vector<double> ours, theirs;
  for (int i = 0; i < rounds; ++i) {
    ours.push_back(seconds(a, times));
    theirs.push_back(seconds(b, times));
  }
  std::ranges::sort(ours), std::ranges::sort(theirs);
  return theirs[rounds / 2] / ours[rounds / 2];
}

std::string against_eigen(const Op& op, const Specs& in, const std::vector<Algorithm>& all,
                          int rounds) {
  const auto native = find(all, "native"), eigen = find(all, "eigen");
  if (!native || !eigen) return "";
  AlgorithmRun a(op, in, *native), b(op, in, *eigen);
  return fmt::format("{:.2f}", ratio(a, b, rounds));
}

double error(const AlgorithmRun& run, const AlgorithmRun& exact, int64_t elements) {
  double most = 0, largest = 0;
  for (int64_t i = 0; i < elements; ++i) {
    const double value = exact.result<double>()[i];
    most = std::max(most, std::abs(value));
    largest = std::max(largest, std::abs(value - static_cast<double>(run.result<float>()[i])));
  }
  return largest / most;
}

std::string against_direct(const Op& op, const Specs& in, const std::vector<Algorithm>& all,
                           int rounds) {
  const auto winograd = find(all, "winograd"), native = find(all, "native");
  if (!winograd || !native) return "";
  AlgorithmRun a(op, in, *winograd), b(op, in, *native);
  const double faster = ratio(a, b, rounds);
  Specs wide = in;
  for (TensorSpec& spec : wide) spec.dtype = DType::f64;
  AlgorithmRun exact(op, wide, *find(algorithms_of(op, wide, cpu_context().target()), "native"),
                     &a);
  seconds(exact, 1);
  const int64_t elements = op.infer(in)[0].shape.elements();
  return fmt::format("{:.2f}, {:.1e}, {:.1e}", faster, error(a, exact, elements),
                     error(b, exact, elements));
}

// A table row: the three passes of a convolution, named by x, its filters and y.
struct Row {
  std::string pass[3];
};

using Figure = decltype(&against_eigen);

void table(Figure figure, const char* model, int64_t batch, int size, int channels, int rounds) {
  Config config = parse_config("", "bench");
  config.model.name = model, config.threads = 1;
  Session session(config, Device{}, {size, size, channels},
                  {std::vector<float>(channels, 0.5F), std::vector<float>(channels, 0.5F)},
                  {.disabled_passes = {"fuse_epilogues"}});
  const Graph& graph = session.train_step(batch).compiled_graph()->graph;
  std::map<std::string, Row> rows;
  std::vector<std::string> order;
  for (const Node& node : graph.nodes) {
    const Specs in = graph.input_specs(node);
    const std::vector<Algorithm> all = algorithms_of(*node.op, in, cpu_context().target());
    if (all.size() < 2) continue;
    const Shape a = in[0].shape, b = in[1].shape, c = node.op->infer(in)[0].shape;
    const int pass = node.op->name() == "conv2d_input_grad"    ? 1
                     : node.op->name() == "conv2d_weight_grad" ? 2
                                                               : 0;
    const Shape &x = pass == 1 ? c : a, &w = pass == 2 ? c : b,
                &y = pass == 0   ? c
                     : pass == 1 ? a
                                 : b;
    const std::string name = fmt::format("{} by {} to {}", x.text(), w.text(), y.text());
    if (rows.count(name) == 0) order.push_back(name);
    std::string& cell = rows[name].pass[pass];
    if (cell.empty()) cell = figure(*node.op, in, all, rounds);
  }
  for (const std::string& name : order)
    if (const Row& row = rows[name]; !(row.pass[0] + row.pass[1] + row.pass[2]).empty())
      fmt::print("| {} | {} | {} |\n", model, name, fmt::join(row.pass, " | "));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const bool winograd = argc > 1 && std::string_view(argv[1]) == "winograd";
  const int rounds = argc > 1 + winograd ? std::atoi(argv[1 + winograd]) : 9;
  fmt::print(
      "| network | shape | forward | input gradient | weight gradient |\n|---|---|---|---|---|\n");
  const auto figure = winograd ? tessera::against_direct : tessera::against_eigen;
  tessera::table(figure, "lenet5", 64, 28, 1, rounds);
  tessera::table(figure, "resnet20", 16, 32, 3, rounds);
  tessera::table(figure, "resnet18_cifar", 8, 32, 3, rounds);
  tessera::table(figure, "resnet50", 2, 224, 3, rounds);
  tessera::table(figure, "mobilenet_v2", 2, 224, 3, rounds);
  if (!winograd) return 0;
  tessera::table(figure, "wide_resnet", 2, 32, 3, rounds);
  tessera::table(figure, "densenet_bc", 8, 32, 3, rounds);
  tessera::table(figure, "vgg16_bn", 8, 32, 3, rounds);
}
