#include "tessera/graph/compile.h"

#include <chrono>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"

namespace tessera {
namespace {

// The slots of a program stand on the host; the device of `argument` copies into them.
void copy_to_slot(const Tensor& argument, const Tensor& slot) {
  const TensorImpl& given = *argument.impl();
  context(given.spec.device).copy_to_host(slot.impl()->data(), given.data(), given.spec.bytes());
}

class ProgramStep final : public CompiledStep {
 public:
  ProgramStep(const StepFunction& fn, Signature signature, const CompileOptions& options)
      : CompiledStep(std::move(signature)) {
    const auto start = std::chrono::steady_clock::now();
    program_ = std::make_unique<Program>(capture(fn, this->signature().arguments), options);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    compile_milliseconds_ = took.count();
  }

  const Tensor& input(size_t i) override { return program_->input(i); }
  const Tensor& output(size_t i) override { return program_->output(i); }
  size_t outputs() const override { return program_->graph().outputs.size(); }
  void bind() override { program_->bind(); }
  void run() override { program_->run(); }
  std::optional<NonFinite> find_non_finite() override { return program_->find_non_finite(); }
  size_t slot_bytes() const override { return program_->slot_bytes(); }
  double compile_milliseconds() const override { return compile_milliseconds_; }
  Program* program() override { return program_.get(); }

 private:
  std::unique_ptr<Program> program_;
  double compile_milliseconds_ = 0;
};

class EagerStep final : public CompiledStep {
 public:
  // `fn` must outlive it.
  EagerStep(const StepFunction& fn, Signature signature)
      : CompiledStep(std::move(signature)), fn_(fn) {
    for (const TensorSpec& spec : this->signature().arguments) inputs_.push_back(empty(spec));
  }

  const Tensor& input(size_t i) override { return inputs_.at(i); }
  const Tensor& output(size_t i) override { return outputs_.at(i); }
  size_t outputs() const override { return outputs_.size(); }
  void bind() override {}
  void run() override {
    const DeviceScope device(signature().device);
    const TrainingScope training(signature().training);
    outputs_.clear();  // before the step, whose peak they would raise
    outputs_ = fn_(inputs_);
  }
  std::optional<NonFinite> find_non_finite() override {
    const DeviceScope device(signature().device);
    const TrainingScope training(signature().training);
    CompileOptions options;
    options.arena = std::make_shared<Arena>(context(signature().device).memory());
    ProgramStep step(fn_, signature(), options);
    for (size_t i = 0; i < inputs_.size(); ++i) copy_to_slot(inputs_[i], step.input(i));
    return step.find_non_finite();
  }
  size_t slot_bytes() const override { return 0; }
  double compile_milliseconds() const override { return 0; }
  Program* program() override { return nullptr; }

 private:
  const StepFunction& fn_;
  Tensors inputs_, outputs_;
};

// What is new about a signature.
std::string difference(const Signature& now, const Signature& before) {
  if (now.arguments.size() != before.arguments.size())
    return fmt::format("{} arguments, before {}", now.arguments.size(), before.arguments.size());
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  for (size_t i = 0; i < now.arguments.size(); ++i)
    if (now.arguments[i] != before.arguments[i])
      add(fmt::format("argument {}: {}, before {}", i, now.arguments[i].text(),
                      before.arguments[i].text()));
  if (now.device != before.device)
    add(fmt::format("device {}, before {}", now.device.name(), before.device.name()));
  if (now.training != before.training) add(fmt::format("training {}", now.training));
  if (now.kernels != before.kernels) add(fmt::format("{} kernels", cpu_context().kernels_name()));
  return text.empty() ? "a signature not seen before" : text;
}

}  // namespace

Compiled::Compiled(StepFunction fn, CompileOptions options)
    : fn_(std::make_unique<StepFunction>(std::move(fn))), options_(std::move(options)) {
  if (!options_.arena) options_.arena = std::make_shared<Arena>(context(current_device()).memory());
}

CompiledStep& Compiled::prepare(const Specs& arguments) {
  Signature signature{arguments, current_device(), is_training(), cpu_context().kernels()};
  for (const auto& step : steps_)
    if (step->signature() == signature) return *step;
  std::string why =
      steps_.empty() ? "first call" : difference(signature, steps_.back()->signature());
  if (options_.eager) {
    steps_.push_back(std::make_unique<EagerStep>(*fn_, std::move(signature)));
  } else {
    steps_.push_back(std::make_unique<ProgramStep>(*fn_, std::move(signature), options_));
    options_.dump_after.clear();  // one graph was asked for
    CompiledStep& step = *steps_.back();
    if (log_enabled(LogLevel::info))
      log(LogLevel::info,
          fmt::format("compile: {} steps, arena {} bytes, {:.1f} ms ({})",
                      step.program()->graph().nodes.size(), step.program()->arena_bytes(),
                      step.compile_milliseconds(), why));
  }
  reasons_.push_back(std::move(why));
  return *steps_.back();
}

Tensors Compiled::call(const Tensors& arguments) {
  if (options_.eager) return (*fn_)(arguments);
  Specs specs;
  for (const Tensor& argument : arguments) specs.push_back(argument.spec());
  CompiledStep& step = prepare(specs);
  for (size_t i = 0; i < arguments.size(); ++i) copy_to_slot(arguments[i], step.input(i));
  step.run();
  Tensors results;
  for (size_t i = 0; i < step.outputs(); ++i) results.push_back(step.output(i));
  return results;
}

void internal::check_argument_count(size_t wanted, size_t given) {
  if (wanted != given)
    throw ShapeError(
        fmt::format("compile: the function takes {} tensors, given {}", wanted, given));
}

}  // namespace tessera
