#include "tessera/graph/compile.h"

#include <fmt/format.h>

#include <chrono>

#include "tessera/engine/scope.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"

namespace tessera {

CompiledStep::CompiledStep() = default;
CompiledStep::~CompiledStep() = default;

const Tensor& CompiledStep::input(size_t i) {
  return program_ ? program_->input(i) : eager_inputs_.at(i);
}

const Tensor& CompiledStep::output(size_t i) {
  return program_ ? program_->output(i) : eager_outputs_.at(i);
}

size_t CompiledStep::outputs() const {
  return program_ ? program_->graph().outputs.size() : eager_outputs_.size();
}

void CompiledStep::run() {
  if (program_) return program_->run();
  DeviceScope device(device_);
  TrainingScope training(training_);
  eager_outputs_.clear();
  eager_outputs_ = (*fn_)(eager_inputs_);
}

Compiled::Compiled(StepFunction fn, CompileOptions options)
    : fn_(std::make_unique<StepFunction>(std::move(fn))), options_(std::move(options)) {
  if (!options_.arena) options_.arena = std::make_shared<Arena>(context(current_device()).memory());
}

std::string Compiled::reason(const Specs& arguments) const {
  if (steps_.empty()) return "first call";
  const CompiledStep& last = *steps_.back();
  if (last.specs_.size() != arguments.size())
    return fmt::format("{} arguments, before {}", arguments.size(), last.specs_.size());
  std::string reason;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == last.specs_[i]) continue;
    reason += fmt::format("{}argument {}: {}, before {}", reason.empty() ? "" : "; ", i,
                          arguments[i].text(), last.specs_[i].text());
  }
  if (last.device_ != current_device())
    reason += fmt::format("{}device {}, before {}", reason.empty() ? "" : "; ",
                          current_device().name(), last.device_.name());
  if (last.training_ != is_training())
    reason += fmt::format("{}training {}", reason.empty() ? "" : "; ", is_training());
  if (last.kernels_ != cpu_context().kernels())
    reason += fmt::format("{}{} kernels", reason.empty() ? "" : "; ", cpu_context().kernels_name());
  return reason.empty() ? "a signature not seen before" : reason;
}

CompiledStep& Compiled::prepare(const Specs& arguments) {
  Device device = current_device();
  for (auto& step : steps_)
    if (step->specs_ == arguments && step->device_ == device && step->training_ == is_training() &&
        step->kernels_ == cpu_context().kernels())
      return *step;
  auto step = std::make_unique<CompiledStep>();
  step->specs_ = arguments;
  step->device_ = device;
  step->training_ = is_training();
  step->kernels_ = cpu_context().kernels();
  step->fn_ = fn_.get();
  std::string why = reason(arguments);
  if (options_.eager) {
    for (const TensorSpec& spec : arguments) step->eager_inputs_.push_back(empty(spec));
  } else {
    ProgramSettings settings;
    settings.planner = options_.planner;
    settings.verify_plan = options_.verify_plan;
    settings.replay_plan = options_.replay_plan;
    settings.lower = {options_.disabled_passes, options_.dump_after,
                      [](const std::string& text) { fmt::print("{}", text); }};
    auto start = std::chrono::steady_clock::now();
    step->program_ =
        std::make_unique<Program>(capture(*fn_, arguments), options_.arena, settings);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    step->compile_milliseconds_ = took.count();
    if (log_enabled(LogLevel::info))
      log(LogLevel::info,
          fmt::format("compile: {} steps, arena {} bytes, {:.1f} ms ({})",
                      step->program_->graph().nodes.size(), step->program_->arena_bytes(),
                      step->compile_milliseconds_, why));
  }
  reasons_.push_back(std::move(why));
  steps_.push_back(std::move(step));
  return *steps_.back();
}

Tensors Compiled::call(const Tensors& arguments) {
  if (options_.eager) {
    return (*fn_)(arguments);
  }
  Specs specs;
  for (const Tensor& argument : arguments) specs.push_back(argument.spec());
  CompiledStep& step = prepare(specs);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const TensorImpl& slot = *step.input(i).impl();
    const TensorImpl& given = *arguments[i].impl();
    // The slots stand on the host; the argument's device copies into them.
    context(given.spec.device).copy_to_host(slot.data(), given.data(), given.spec.bytes());
  }
  step.run();
  Tensors results;
  for (size_t i = 0; i < step.outputs(); ++i) results.push_back(step.output(i));
  return results;
}

void internal::check_argument_count(size_t wanted, size_t given) {
  if (wanted != given)
    throw ShapeError(fmt::format("compile: the function takes {} tensors, given {}", wanted, given));
}

}  // namespace tessera
