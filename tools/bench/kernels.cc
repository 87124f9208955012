// Speed of the native CPU kernels over Eigen's, for every distinct matrix product and convolution
// in the training steps of some networks: a Markdown table on stdout. Ratios of medians of
// processor time on one thread, the two run in turn. Built on request: ninja kernel_bench;
// kernel_bench [ROUNDS].
#include <algorithm>
#include <ctime>
#include <map>

#include <fmt/format.h>

#include "tessera/engine/op.h"
#include "tessera/graph/program.h"
#include "tessera/models/config/config.h"
#include "tessera/models/training/session.h"

namespace tessera {
namespace {

// One algorithm of a node, on operands of random numbers.
class Run {
 public:
  Run(const Op& op, const Specs& in, const Algorithm& algorithm)
      : kernel_(op.prepare(in, cpu_context(), algorithm)),
        scratch_(allocate_storage(algorithm.scratch_bytes, Device{}, true)) {
    for (const TensorSpec& spec : in)
      add(random_normal(spec.shape, in_.size() + 1, 0, 1, spec.dtype), in_);
    for (TensorSpec spec : op.infer(in)) add(empty(spec), out_);
  }

  double seconds(int times) {
    const std::clock_t start = std::clock();
    for (int i = 0; i < times; ++i) kernel_->run(cpu_context(), in_, out_, {scratch_->pointer, {}});
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / times;
  }

 private:
  void add(const Tensor& tensor, std::vector<Buffer>& to) {
    tensors_.push_back(tensor);
    to.push_back({tensor.impl()->data(), tensor.spec()});
  }

  std::unique_ptr<Kernel> kernel_;
  std::shared_ptr<Storage> scratch_;
  Tensors tensors_;
  std::vector<Buffer> in_, out_;
};

double ratio(const Op& op, const Specs& in, const std::vector<Algorithm>& all, int rounds) {
  Run native(op, in, all[0]), eigen(op, in, all[1]);
  eigen.seconds(1);
  const int times = std::clamp(static_cast<int>(0.004 / (native.seconds(1) + 1e-6)), 1, 1000);
  std::vector<double> ours, theirs;
  for (int i = 0; i < rounds; ++i) {
    ours.push_back(native.seconds(times));
    theirs.push_back(eigen.seconds(times));
  }
  std::sort(ours.begin(), ours.end()), std::sort(theirs.begin(), theirs.end());
  return theirs[rounds / 2] / ours[rounds / 2];
}

// The three passes of a convolution stand in one row, named by x, its filters and y.
struct Row {
  std::string pass[3];
};

void table(const char* model, int64_t batch, int size, int channels, int rounds) {
  Config config = parse_config("", "bench");
  config.model.name = model, config.threads = 1;
  Session session(config, {size, size, channels},
                  {std::vector<float>(channels, 0.5F), std::vector<float>(channels, 0.5F)},
                  {.disabled_passes = {"fuse_epilogues"}});
  const Graph& graph = session.train_step(batch).program()->graph();
  std::map<std::string, Row> rows;
  std::vector<std::string> order;
  for (const Node& node : graph.nodes) {
    const Specs in = graph.input_specs(node);
    const std::vector<Algorithm> all = node.op->algorithms(in, cpu_context().target());
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
    if (cell.empty()) cell = fmt::format("{:.2f}", ratio(*node.op, in, all, rounds));
  }
  for (const std::string& name : order)
    fmt::print("| {} | {} | {} |\n", model, name, fmt::join(rows[name].pass, " | "));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  fmt::print(
      "| network | shape | forward | input gradient | weight gradient |\n|---|---|---|---|---|\n");
  tessera::table("lenet5", 64, 28, 1, rounds);
  tessera::table("resnet20", 16, 32, 3, rounds);
  tessera::table("resnet18_cifar", 8, 32, 3, rounds);
  tessera::table("resnet50", 2, 224, 3, rounds);
  tessera::table("mobilenet_v2", 2, 224, 3, rounds);
}
