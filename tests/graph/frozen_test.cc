// Programs with constant parameters: values that depend only on them are computed once.
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/arena.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/batch_norm.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 2, kSide = 12, kIn = 8, kOut = 16;

// Images -> convolution, batch norm with running statistics, ReLU, mean, linear layer.
struct Net {
  Store store{1};
  Tensor filters = store.parameter("conv.weight", {kOut, 3, 3, kIn}, Initializer::normal(0.3));
  Tensor gamma = store.parameter("bn.gamma", {kOut}, Initializer::normal(1));
  Tensor beta = store.parameter("bn.beta", {kOut}, Initializer::normal(1));
  Tensor mean = store.buffer("bn.mean", {kOut}, Initializer::normal(1));
  Tensor deviation = store.buffer("bn.deviation", {kOut}, Initializer::normal(0.5));
  Tensor weight = store.parameter("fc.weight", {3, kOut}, Initializer::normal(0.5));
  Tensor bias = store.parameter("fc.bias", {3}, Initializer::normal(1));

  Tensor operator()(const Tensor& x) const {
    const TrainingScope evaluation(false);
    const NoGradScope no_grad;
    const Tensor y = conv2d(x, filters, {.padding = 1});
    const Tensor z = relu(batch_norm(y, gamma, beta, mean, deviation * deviation, {}));
    return linear(tessera::mean(z, {1, 2}), weight, bias);
  }
};

std::vector<float> values_of(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  return values;
}

Tensor images() {
  return from_vector<float>({kBatch, kSide, kSide, kIn}, values_of(kBatch * kSide * kSide * kIn));
}

CompileOptions frozen(std::vector<std::string> off = {}) {
  CompileOptions options;
  options.constant_parameters = true;
  options.disabled_passes = std::move(off);
  options.arenas = std::make_shared<Arenas>();
  return options;
}

Graph captured(const Net& net) {
  return capture([&](const Tensors& x) { return Tensors{net(x[0])}; }, {images().spec()});
}

std::vector<float> run(Program& program) {
  program.bind();
  Tensor(program.input(0)).assign(std::span<const float>(images().to_vector<float>()));
  program.run();
  return program.output(0).to_vector<float>();
}

int fired(const Program& program, const std::string& pass) {
  for (const PassRecord& record : program.compiled().passes)
    if (record.name == pass) return record.fired;
  return -1;
}

size_t persistent_values(const Program& program) {
  size_t count = 0;
  for (const Value& value : program.compiled().graph.values) count += value.persistent();
  return count;
}

TEST(Frozen, ComputesWhatEvaluationComputes) {
  const Net net;
  const std::vector<float> wanted = net(images()).to_vector<float>();
  Program program(captured(net), frozen());
  EXPECT_GE(fired(program, "fold_constants"), 5);  // nodes of batch norm
  EXPECT_EQ(fired(program, "fold_scales"), 1);
  EXPECT_EQ(fired(program, "pack_constants"), has_native_kernels() ? 1 : 0);
  EXPECT_EQ(persistent_values(program), 0u);
  const std::vector<float> found = run(program);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i])));
}

// Only fold_scales changes the rounding.
TEST(Frozen, HasTheBitsOfEvaluationWithoutFoldedScales) {
  const Net net;
  Program program(captured(net), frozen({"fold_scales"}));
  EXPECT_EQ(run(program), net(images()).to_vector<float>());
  Program plain(captured(net), frozen({"fold_scales", "fold_constants", "pack_constants"}));
  EXPECT_EQ(run(plain), net(images()).to_vector<float>());
}

TEST(Frozen, OutlivesTheStore) {
  auto net = std::make_unique<Net>();
  const std::vector<float> wanted = net->operator()(images()).to_vector<float>();
  Program program(captured(*net), frozen({"fold_scales"}));
  for (Tensor* tensor : {&net->filters, &net->gamma, &net->beta, &net->mean, &net->deviation,
                         &net->weight, &net->bias})
    tensor->assign(
        std::span<const float>(std::vector<float>(static_cast<size_t>(tensor->elements()), 99)));
  net.reset();
  EXPECT_EQ(run(program), wanted);
}

// Programs share the graph and its constants; each has its own slots and arena.
TEST(Frozen, ProgramsExecuteOneCompiledGraph) {
  const Net net;
  const auto compiled = std::make_shared<const CompiledGraph>(captured(net), frozen());
  Program a(compiled, frozen()), b(compiled, frozen());
  EXPECT_EQ(run(a), run(b));
  EXPECT_EQ(&a.compiled(), &b.compiled());
  EXPECT_NE(a.input(0).impl()->data(), b.input(0).impl()->data());
}

// Without constant folding, filters may be rounded where they are read.
TEST(Frozen, RoundedFiltersAreNotPackedBefore) {
  Net net;
  const auto half = [&](const Tensors& x) {
    return Tensors{cast(net(cast(x[0], DType::bf16)), DType::f32)};
  };
  for (const bool folds : {true, false}) {
    Program program(capture(half, {images().spec()}),
                    folds ? frozen() : frozen({"fold_constants"}));
    EXPECT_EQ(run(program), half({images()})[0].to_vector<float>()) << folds;
  }
}

// Other programs read the parameters in every run.
TEST(Frozen, OtherProgramsHaveNoConstants) {
  Net net;
  CompileOptions options = frozen();
  options.constant_parameters = false;
  Program program(captured(net), options);
  for (const char* pass : {"fold_constants", "fold_scales", "pack_constants", "fuse_chains"})
    EXPECT_EQ(fired(program, pass), 0) << pass;
  const std::vector<float> before = run(program);
  net.bias.assign(std::span<const float>(std::vector<float>{5, 6, 7}));
  EXPECT_NE(run(program), before);
  EXPECT_EQ(run(program), net(images()).to_vector<float>());
}

// A tensor that the function updates changes from run to run.
TEST(Frozen, WhatIsUpdatedIsNoConstant) {
  Net net;
  const auto trains = [&](const Tensors& x) {
    const TrainingScope training;
    const NoGradScope no_grad;
    return Tensors{batch_norm(conv2d(x[0], net.filters, {.padding = 1}), net.gamma, net.beta,
                              net.mean, net.deviation, {})};
  };
  Program program(capture(trains, {images().spec()}), frozen());
  EXPECT_EQ(persistent_values(program), 4u);  // two statistics, before and after
  const std::vector<float> before = net.mean.to_vector<float>();
  run(program);
  EXPECT_NE(net.mean.to_vector<float>(), before);
}

// Folds only captured constants: small results, and results not larger than their inputs.
TEST(Frozen, FoldedValuesAreNotLargerThanWhatTheyAreMadeOf) {
  const Tensor three = full({4}, 3), two = full({1, 4096}, 2);
  const auto fn = [&](const Tensors& x) {
    return Tensors{x[0] + (constant(three) + 1),
                   reshape(expand(constant(two), {64, 4096}), {4096, 64}) + x[1]};
  };
  Program program(capture(fn, {{DType::f32, {4}, {}}, {DType::f32, {4096, 64}, {}}}), [] {
    CompileOptions options;
    options.arenas = std::make_shared<Arenas>();
    return options;
  }());
  EXPECT_EQ(fired(program, "fold_constants"), 1);
}

struct Form {
  int64_t stride = 1;
  bool expands = true, projects = true;
  int64_t padding = 1;
  bool biased = true;  // otherwise the epilogue is no BiasActivation
  int64_t wide = 96;
};

// The inverted residual of MobileNet v2.
struct Inverted : Form {
  explicit Inverted(const Form& form) : Form(form) {}
  static constexpr int64_t kNarrow = 20;
  Store store{7};
  Tensor expand = store.parameter("expand", {wide, 1, 1, kNarrow}, Initializer::normal(0.3));
  Tensor depthwise = store.parameter("depthwise", {wide, 3, 3, 1}, Initializer::normal(0.3));
  Tensor project = store.parameter("project", {kNarrow, 1, 1, wide}, Initializer::normal(0.3));
  Tensor bias = store.parameter("bias", {wide}, Initializer::normal(0.3));
  Tensor last_bias = store.parameter("last_bias", {kNarrow}, Initializer::normal(0.3));

  Shape image() const { return {12, 32, 31, expands ? kNarrow : wide}; }
  Tensor operator()(const Tensor& x) const {
    const NoGradScope no_grad;
    Tensor y = x;
    const auto with = [&](const Tensor& sums, const Tensor& b) {
      return biased ? cast(cast(sums, DType::f32) + b, x.dtype()) : sums;
    };
    if (expands) y = relu6(with(conv2d(y, expand), bias));
    const Conv2dParams params{.stride = stride, .padding = padding, .groups = wide};
    y = relu6(with(conv2d(y, depthwise, params), bias));
    if (projects) y = with(conv2d(y, project), last_bias);
    return y.shape() == x.shape() ? y + x : y;
  }
};

template <class T>
void expect_bits_of_chains(const Form& form) {
  const Inverted block(form);
  const std::vector<float> values = values_of(block.image().elements());
  const std::vector<T> x(values.begin(), values.end());
  const auto compiled = [&](std::vector<std::string> off) {
    return Program(capture([&](const Tensors& in) { return Tensors{block(in[0])}; },
                           {TensorSpec{dtype_of<T>, block.image(), {}}}),
                   frozen(std::move(off)));
  };
  const auto output = [&](Program& program) {
    program.bind();
    Tensor(program.input(0)).assign(std::span<const T>(x));
    program.run();
    return cast(program.output(0), DType::f32).template to_vector<float>();
  };
  const Tensor images = from_vector<T>(block.image(), x);
  const std::vector<float> wanted = cast(block(images), DType::f32).template to_vector<float>();
  for (const int count : {1, 2, 5}) {
    SCOPED_TRACE(fmt::format("{} stride {} padding {} width {}, {} threads", name_of(dtype_of<T>),
                             form.stride, form.padding, form.wide, count));
    const testing_zoo::Threads threads(count);
    Program apart = compiled({"fuse_chains"}), chained = compiled({});
    const int stages = 1 + (block.expands ? 1 : 0) + (block.projects ? 1 : 0);
    EXPECT_EQ(fired(chained, "fuse_chains"), has_native_kernels() ? stages - 1 : 0);
    EXPECT_EQ(output(chained), wanted);
    EXPECT_EQ(output(apart), wanted);
    if (has_native_kernels() && block.expands && count < 5) {
      EXPECT_LT(chained.compiled().arena_bytes(), apart.compiled().arena_bytes());
    }
  }
}

// A chain of convolutions has the bits of its convolutions, with any number of threads, and its
// arena does not hold what is between them. In bfloat16, 672 channels are summed in two chunks.
TEST(Frozen, ChainsOfConvolutionsHaveTheirBits) {
  for (const Form& form :
       {Form{}, Form{.stride = 2}, Form{.expands = false}, Form{.projects = false},
        Form{.stride = 2, .expands = false}, Form{.stride = 2, .projects = false},
        Form{.padding = 0}, Form{.padding = 2}, Form{.stride = 2, .padding = 3},
        Form{.biased = false}, Form{.stride = 2, .biased = false}, Form{.wide = 672}}) {
    expect_bits_of_chains<float>(form);
    expect_bits_of_chains<bfloat16>(form);
  }
}

// The second depthwise convolution of MobileNet v1 reads a chain, and is not in it.
TEST(Frozen, AChainHasOneDepthwiseConvolution) {
  const Inverted block({.expands = false});
  Store store{3};
  const Tensor filters =
      store.parameter("last", {Inverted::kNarrow, 3, 3, 1}, Initializer::normal(0.3));
  const auto net = [&](const Tensors& x) {
    return Tensors{conv2d(block(x[0]), filters, {.padding = 1, .groups = Inverted::kNarrow})};
  };
  const std::vector<float> x = values_of(block.image().elements());
  std::vector<float> results[2];
  for (const bool chains : {false, true}) {
    Program program(capture(net, {TensorSpec{DType::f32, block.image(), {}}}),
                    chains ? frozen() : frozen({"fuse_chains"}));
    EXPECT_EQ(fired(program, "fuse_chains"), chains && has_native_kernels() ? 1 : 0);
    program.bind();
    Tensor(program.input(0)).assign(std::span<const float>(x));
    program.run();
    results[chains] = program.output(0).to_vector<float>();
  }
  EXPECT_EQ(results[0], results[1]);
}

// The input of the depthwise convolution is larger than its result, and would have to stay in
// memory until the pooling between the two convolutions is done.
TEST(Frozen, AChainDoesNotKeepALargerTensorForLater) {
  const Inverted block({.stride = 2, .expands = false, .projects = false});
  for (const bool between : {false, true}) {
    const auto net = [&](const Tensors& x) {
      const auto half = [&] { return max_pool2d(x[0], {.kernel = 2}); };
      const Tensor before = half();
      const Tensor narrow = block(max_pool2d(x[0], {.kernel = 3, .stride = 1, .padding = 1}));
      const Tensor after = between ? half() + before : before;
      return Tensors{conv2d(narrow, block.project), after};
    };
    const Program program(capture(net, {TensorSpec{DType::f32, block.image(), {}}}), frozen());
    EXPECT_EQ(fired(program, "fuse_chains"), !between && has_native_kernels() ? 1 : 0);
  }
}

// Small tensors stay in the cache anyway, and many threads would compute many rows twice.
TEST(Frozen, ChainsMustPay) {
  const Inverted block({});
  const auto chains = [&](const Shape& image) {
    return fired(Program(capture([&](const Tensors& in) { return Tensors{block(in[0])}; },
                                 {TensorSpec{DType::f32, image, {}}}),
                         frozen()),
                 "fuse_chains");
  };
  const int both = has_native_kernels() ? 2 : 0;
  const testing_zoo::Threads threads(4);
  EXPECT_EQ(chains({1, 40, 40, 20}), both);
  EXPECT_EQ(chains({1, 15, 100, 20}), 0);
  EXPECT_EQ(chains({1, 32, 32, 20}), 0);
}

}  // namespace
}  // namespace tessera
