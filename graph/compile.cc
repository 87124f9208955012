#include "tessera/graph/compile.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/tape.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/function_gradient.h"
#include "tessera/graph/host_staging.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {
namespace {

void copy_to_slot(const Tensor& argument, const Tensor& slot) {
  const TensorImpl& given = *argument.impl();
  copy_bytes(slot.device(), slot.impl()->data(), given.spec.device, given.data(),
             given.spec.bytes());
}

class ProgramStep final : public CompiledStep {
 public:
  ProgramStep(const StepFunction& fn, Signature signature, const CompileOptions& options)
      : CompiledStep(std::move(signature)), arenas_(options.arenas) {
    const auto start = std::chrono::steady_clock::now();
    CapturedFunction captured =
        capture_function(fn, this->signature().arguments, this->signature().tracked);
    stops_ = std::move(captured.stops);
    program_ = std::make_unique<Program>(std::move(captured.graph), options);
    if (captured.gradient)
      gradient_ = std::make_shared<FunctionGradient>(std::move(*captured.gradient), options,
                                                     this->signature().arguments);
    compile_milliseconds_ = milliseconds_since(start);
  }

  const Tensor& input(size_t i) override { return program_->input(i); }
  const Tensor& output(size_t i) override {
    return i < results_.size() ? results_[i] : program_->output(i);
  }
  size_t outputs() const override { return stops_.size(); }
  void use_external_slots(ExternalMemory external) override {
    const ArenasInUse alone(*arenas_, signature().arguments);
    if (external.bytes < slot_bytes())
      throw ConfigError(
          fmt::format("compiled function: its slots need {} bytes, but the given memory has {}; "
                      "provide slot_bytes()",
                      slot_bytes(), external.bytes));
    program_->use_external_slots(external, program_->compiled().device());
    const size_t own = program_->compiled().slot_bytes();
    if (gradient_)
      gradient_->program().use_external_slots(
          {static_cast<std::byte*>(external.data) + own, external.bytes - own},
          program_->compiled().device());
  }
  void bind() override {
    const ArenasInUse alone(*arenas_, signature().arguments);
    program_->bind();
    if (gradient_) gradient_->bind(*program_);
    if (results_.empty()) make_results();
    if (max_runs_ahead() > 0) staging();
  }
  void run() override {
    const ArenasInUse alone(*arenas_, signature().arguments);
    begin();
    if (!gradient_) return run_with({});
    Tensors slots;  // not tracked: gradients flow back to the parameters alone
    for (size_t i = 0; i < inputs(); ++i) slots.push_back(input(i));
    run_with(slots);
  }
  Tensors call(const Tensors& arguments) override {
    const ArenasInUse alone(*arenas_, signature().arguments);
    begin();
    Tensors results;  // allocated before the run: if that fails, nothing has changed
    for (size_t i = 0; i < outputs(); ++i) results.push_back(empty(program_->output(i).spec()));
    for (size_t i = 0; i < arguments.size(); ++i) copy_to_slot(arguments[i], input(i));
    run_with(arguments);
    for (size_t i = 0; i < outputs(); ++i) {
      TensorImpl& mine = *results[i].impl();
      const std::shared_ptr<Storage> storage = mine.storage;
      mine = *results_[i].impl();
      copy_bytes(mine.spec.device, storage->data(), mine.spec.device, mine.data(), storage->bytes);
      mine.storage = storage;
    }
    if (gradient_) results_.clear();  // their tape is freed with the returned tensors
    return results;
  }

  const Tensor& host_input(size_t i) override {
    return max_runs_ahead() > 0 ? staging().input(i) : CompiledStep::host_input(i);
  }
  void stage_input(size_t i, const void* staged) override {
    return max_runs_ahead() > 0 ? staging().stage_input(i, staged)
                                : CompiledStep::stage_input(i, staged);
  }
  void submit() override {
    const ArenasInUse alone(*arenas_, signature().arguments);
    begin();
    submitted_ = true;
    return max_runs_ahead() > 0 ? staging().submit() : CompiledStep::submit();
  }
  int max_runs_ahead() const override {
    return program_->compiled().slot_layout && !gradient_ ? 1 : 0;
  }
  void collect() override {
    return max_runs_ahead() > 0 ? staging().collect() : CompiledStep::collect();
  }
  const Tensor& host_output(size_t i) override {
    return max_runs_ahead() > 0 ? staging().output(i) : CompiledStep::host_output(i);
  }
  int64_t skipped_updates() const override {
    return staging_ ? staging_->skipped_updates() : CompiledStep::skipped_updates();
  }
  std::optional<NonFinite> find_non_finite() override {
    const ArenasInUse alone(*arenas_, signature().arguments);
    begin();
    if (staging_ && submitted_) staging_->restore_inputs();
    return program_->find_non_finite();
  }
  size_t staging_bytes() const override {
    return max_runs_ahead() > 0 ? HostStaging::bytes(program_->compiled()) : 0;
  }
  size_t slot_bytes() const override {
    return program_->compiled().slot_bytes() +
           (gradient_ ? gradient_->program().compiled().slot_bytes() : 0);
  }
  double compile_milliseconds() const override { return compile_milliseconds_; }
  Program* program() override { return program_.get(); }
  Program* gradient_program() override { return gradient_ ? &gradient_->program() : nullptr; }

 private:
  HostStaging& staging() {
    if (!staging_) staging_ = std::make_unique<HostStaging>(*program_);
    return *staging_;
  }

  // Must be called before anything is written to the slots.
  void begin() {
    if (gradient_ || std::exchange(stopped_, false))
      results_.clear();  // the tape refers to these handles; the next run needs new ones
    if (gradient_) gradient_->keep_last_call();
  }

  void run_with(const Tensors& arguments) {
    submitted_ = false;
    program_->run();
    if (gradient_) gradient_->bind(*program_);
    if (results_.empty()) make_results();
    if (!grad_mode_enabled()) return;
    for (const Tensor& argument : arguments)
      if (argument.impl()->stop) {
        results_.clear();
        make_results();
        for (const Tensor& result : results_) result.impl()->stop = argument.impl()->stop;
        stopped_ = true;
        return;
      }
    if (gradient_) FunctionGradient::tie(gradient_, arguments, results_);
  }

  void make_results() {
    for (size_t i = 0; i < outputs(); ++i) {
      results_.push_back(detach(program_->output(i)));
      results_.back().impl()->stop = stops_[i];
    }
  }

  const std::shared_ptr<Arenas> arenas_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<HostStaging> staging_;
  bool submitted_ = false;                                  // the last run was started by submit()
  std::shared_ptr<FunctionGradient> gradient_;              // the tape may outlive this step
  std::vector<std::shared_ptr<const GradientStop>> stops_;  // for each result
  Tensors results_;
  bool stopped_ = false;  // results_ have the stop of an argument
  double compile_milliseconds_ = 0;
};

class EagerStep final : public CompiledStep {
 public:
  // `fn` must outlive this object.
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
    const SettingsScope settings(signature().settings);
    outputs_.clear();  // freed before the step, else they would raise its peak
    outputs_ = fn_(inputs_);
  }
  Tensors call(const Tensors& arguments) override { return fn_(arguments); }
  std::optional<NonFinite> find_non_finite() override {
    const DeviceScope device(signature().device);
    const TrainingScope training(signature().training);
    const SettingsScope settings(signature().settings);
    CompileOptions options;
    options.arenas = std::make_shared<Arenas>();
    ProgramStep step(fn_, signature(), options);
    for (size_t i = 0; i < inputs_.size(); ++i) copy_to_slot(inputs_[i], step.input(i));
    return step.find_non_finite();
  }
  size_t slot_bytes() const override { return 0; }
  double compile_milliseconds() const override { return 0; }
  Program* program() override { return nullptr; }
  Program* gradient_program() override { return nullptr; }

 private:
  const StepFunction& fn_;
  Tensors inputs_, outputs_;
};

// Returns the host tensor that corresponds to `there`.
const Tensor& host_copy(Tensors& copies, size_t i, const Tensor& there) {
  if (there.device().is_cpu()) return there;
  copies.resize(std::max(copies.size(), i + 1));
  TensorSpec spec = there.spec();
  spec.device = Device{};
  if (!copies[i].defined() || copies[i].spec() != spec) copies[i] = empty(spec);
  return copies[i];
}

// Returns the signature of a call in the open scopes.
Signature signature_of(Specs arguments) {
  return {.arguments = std::move(arguments),
          .device = current_device(),
          .training = is_training(),
          .gradients = grad_mode_enabled(),
          .tracked = {},
          .settings = settings()};
}

// Returns how a signature differs from the one before.
std::string difference(const Signature& now, const Signature& before) {
  if (now.arguments.size() != before.arguments.size())
    return fmt::format("{} arguments instead of {}", now.arguments.size(), before.arguments.size());
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  for (size_t i = 0; i < now.arguments.size(); ++i)
    if (now.arguments[i] != before.arguments[i])
      add(fmt::format("argument {}: {} instead of {}", i, now.arguments[i].text(),
                      before.arguments[i].text()));
  if (now.device != before.device)
    add(fmt::format("device {} instead of {}", now.device.name(), before.device.name()));
  if (now.training != before.training) add(fmt::format("training {}", now.training));
  if (now.gradients != before.gradients)
    add(now.gradients ? "not in a NoGradScope" : "in a NoGradScope");
  if (now.tracked != before.tracked) add("other arguments are tracked");
  const Settings &set = now.settings, &was = before.settings;
  if (set.threads != was.threads)
    add(fmt::format("{} threads instead of {}", set.threads, was.threads));
  if (set.gpu != was.gpu) add("other GPU settings");
  if (set.cpu.kernels != was.cpu.kernels)
    add(fmt::format("{} kernels", cpu_context().kernels_name()));
  if (set.cpu.winograd != was.cpu.winograd)
    add(set.cpu.winograd == Winograd::off ? "no Winograd convolutions" : "Winograd convolutions");
  return text.empty() ? "a signature not seen before" : text;
}

}  // namespace

void CompiledStep::use_external_slots(ExternalMemory) {
  throw Error("step: eager mode has no slots; leave out CompileOptions::eager");
}

const Tensor& CompiledStep::host_input(size_t i) { return host_copy(host_inputs_, i, input(i)); }

void CompiledStep::stage_input(size_t i, const void* staged) {
  Tensor there = input(i);
  context(there.device()).copy_from_host(there.impl()->data(), staged, there.spec().bytes());
  ++there.impl()->storage->version;
  if (i < host_inputs_.size()) host_inputs_[i] = Tensor();
}

void CompiledStep::submit() {
  for (size_t i = 0; i < host_inputs_.size(); ++i)
    if (host_inputs_[i].defined()) copy_to_slot(host_inputs_[i], input(i));
  run();
}

void CompiledStep::collect() {
  for (size_t i = 0; i < outputs(); ++i) {
    const Tensor& there = output(i);
    if (!there.device().is_cpu()) copy_to_slot(there, host_copy(host_outputs_, i, there));
  }
}

const Tensor& CompiledStep::host_output(size_t i) { return host_copy(host_outputs_, i, output(i)); }

int64_t CompiledStep::skipped_updates() const {
  return context(signature_.device).skipped_updates();
}

Compiled::Compiled(StepFunction fn, CompileOptions options)
    : fn_(std::make_unique<StepFunction>(std::move(fn))), options_(std::move(options)) {
  if (!options_.arenas) options_.arenas = std::make_shared<Arenas>();
}

CompiledStep& Compiled::prepare(const Specs& arguments) {
  const ArenasInUse alone(*options_.arenas, arguments);
  return prepare(signature_of(arguments));
}

CompiledStep& Compiled::prepare(Signature signature) {
  ++uses_;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i]->signature() != signature) continue;
    last_use_[i] = uses_;
    return *steps_[i];
  }
  std::string why =
      steps_.empty() ? "first call" : difference(signature, steps_.back()->signature());
  evict_if_full(why);
  if (options_.eager) {
    steps_.push_back(std::make_unique<EagerStep>(*fn_, std::move(signature)));
  } else {
    steps_.push_back(std::make_unique<ProgramStep>(*fn_, std::move(signature), options_));
    options_.dump_after.clear();  // only the first graph is dumped
    CompiledStep& step = *steps_.back();
    if (log_enabled(LogLevel::info))
      log(LogLevel::info,
          fmt::format("compile: {} nodes, arena {} bytes, {:.1f} ms ({})",
                      step.compiled_graph()->graph.nodes.size(),
                      step.compiled_graph()->arena_bytes(), step.compile_milliseconds(), why));
  }
  reasons_.push_back(std::move(why));
  last_use_.push_back(uses_);
  return *steps_.back();
}

void Compiled::evict_if_full(const std::string& why) {
  const size_t most = std::max<size_t>(options_.max_signatures, 1);
  if (steps_.size() >= most && options_.when_full == WhenFull::refuse)
    throw Error(fmt::format(
        "compile: {} signatures are already compiled, which is max_signatures; the next one "
        "differs by: {}; pass arguments of equal shapes, or raise max_signatures",
        steps_.size(), why));
  if (steps_.size() >= most && options_.when_full == WhenFull::drop_oldest) {
    const auto oldest = std::ranges::min_element(last_use_) - last_use_.begin();
    steps_.erase(steps_.begin() + oldest);
    last_use_.erase(last_use_.begin() + oldest);
  }
  if (steps_.size() + 1 == most && most > 1 && options_.when_full == WhenFull::grow)
    log(LogLevel::warning,
        fmt::format(
            "compile: this is signature {} of one function ({}); each signature uses its own "
            "memory; pass arguments of equal shapes, or set max_signatures and when_full",
            most, why));
}

const CompiledGraph* CompiledStep::compiled_graph() {
  return program() != nullptr ? &program()->compiled() : nullptr;
}

CompiledStep& Compiled::step(size_t i) {
  if (i < steps_.size()) return *steps_[i];
  throw Error(steps_.empty()
                  ? std::string("compile: nothing is compiled yet; call the function, or prepare()")
                  : fmt::format("compile: step {} does not exist; {} steps are compiled", i,
                                steps_.size()));
}

std::string Compiled::graph(size_t i) {
  const CompiledGraph* compiled = step(i).compiled_graph();
  return compiled != nullptr ? compiled->graph.text() : "eager mode: there is no graph\n";
}

std::string Compiled::plan(size_t i) {
  const CompiledGraph* compiled = step(i).compiled_graph();
  return compiled != nullptr ? plan_report(*compiled).text() : "eager mode: there is no plan\n";
}

Tensors Compiled::call(const Tensors& arguments) {
  if (options_.eager || current_recorder() != nullptr) return (*fn_)(arguments);
  Specs specs;
  for (const Tensor& argument : arguments) specs.push_back(argument.spec());
  Signature signature = signature_of(std::move(specs));
  const ArenasInUse alone(*options_.arenas, signature.arguments);
  if (should_record(arguments))
    for (const Tensor& argument : arguments)
      signature.tracked.push_back(should_record(std::span(&argument, 1)));
  return prepare(std::move(signature)).call(arguments);
}

void internal::check_argument_count(size_t wanted, size_t given) {
  if (wanted != given)
    throw ShapeError(
        fmt::format("compile: the function takes {} tensors, but got {}", wanted, given));
}

}  // namespace tessera
