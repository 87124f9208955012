// apply(), the single entry point of ops, and the eager interpreter.
#include <fmt/format.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/eager.h"
#include "tessera/engine/op.h"
#include "tessera/engine/prepare.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/tape.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"

namespace tessera {
namespace {

// The default kernel calls the op's run() for the device.
class RunKernel final : public Kernel {
 public:
  explicit RunKernel(const Op& op) : op_(op) {}
  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    if (ctx.device().is_cpu()) {
      op_.run(static_cast<CpuContext&>(ctx), in, out, scratch);
    } else if constexpr (kCuda) {
      op_.run(as_cuda(ctx), in, out, scratch);
    }
  }

 private:
  const Op& op_;
};

void check_devices(const Op& op, std::span<const Tensor> inputs, Device device) {
  if (!op.runs_on(device.kind) && !is_described(device))
    throw DeviceError(
        fmt::format("{}: this op has no kernel for {}; run it in a DeviceScope(\"cpu:0\") and copy "
                    "its inputs to cpu:0",
                    op.name(), device.name()));
  if (op.crosses_devices()) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].device() != device)
      throw DeviceError(
          fmt::format("{}: input {} is on {}, but the op runs on {}; use copy(x, device)",
                      op.name(), i, inputs[i].device().name(), device.name()));
  }
}

Tensors run_now(const OpPtr& called, std::span<const Tensor> inputs, const Specs& in,
                const Specs& specs, Device device) {
  const Op& op = *called;
  const TracedOp recorded(op.name());
  const CurrentOpScope running(op.name());
  Tensors outputs;
  bool only_views = true;
  for (size_t i = 0; i < specs.size(); ++i) {
    int view = op.view_of(static_cast<int>(i)), update = op.updates(static_cast<int>(i));
    if (view >= 0) {
      const TensorImpl& whole = *inputs[view].impl();
      whole.data();
      outputs.push_back(make_tensor(specs[i], whole.storage, whole.offset + op.view_offset(in)));
      continue;
    }
    only_views = false;
    if (update >= 0) {
      const TensorImpl& old = *inputs[update].impl();
      outputs.push_back(make_tensor(specs[i], old.storage, old.offset));
    } else {
      outputs.push_back(make_tensor(specs[i], allocate_storage(specs[i].bytes(), device)));
    }
  }
  if (only_views) return outputs;

  Context& ctx = context(device);
  const KernelCache::Entry& prepared = kernel_cache().find(called, in, ctx);
  const std::shared_ptr<Kernel> kernel = prepared.kernel;
  const size_t scratch_bytes = prepared.scratch_bytes;
  std::vector<Buffer> in_buffers, out_buffers;
  for (const Tensor& x : inputs) in_buffers.push_back({x.impl()->data(), x.spec()});
  for (const Tensor& y : outputs) out_buffers.push_back({y.impl()->data(), y.spec()});
  std::shared_ptr<Storage> scratch;
  Buffer scratch_buffer;
  if (scratch_bytes > 0) {
    scratch = allocate_storage(scratch_bytes, device, true);
    scratch_buffer = {scratch->pointer, {DType::u8, {static_cast<int64_t>(scratch_bytes)}, device}};
  }
  kernel->run(ctx, in_buffers, out_buffers, scratch_buffer);
  if (!device.is_cpu() && settings().gpu.synchronous) ctx.synchronize();
  for (size_t i = 0; i < specs.size(); ++i)
    if (op.updates(static_cast<int>(i)) >= 0) ++outputs[i].impl()->storage->version;
  return outputs;
}

// Puts an update on the list of the DeferUpdatesScope, if there is one. Returns the tensors that
// it would update, or nothing.
Tensors deferred(const OpPtr& op, const Tensors& inputs, size_t outputs) {
  std::vector<DeferredUpdate>* list = deferred_updates();
  if (list == nullptr || op->updates(0) < 0) return {};
  list->push_back({op, inputs, current_module_path()});
  Tensors same;
  for (size_t i = 0; i < outputs; ++i)
    same.push_back(inputs[static_cast<size_t>(op->updates(static_cast<int>(i)))]);
  return same;
}

// apply() without the location of its errors.
Tensors call(const OpPtr& op, const Tensors& inputs) {
  Device device = current_device();
  Specs in;
  in.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined())
      throw Error(fmt::format("{}: input {} is an undefined tensor", op->name(), i));
    in.push_back(inputs[i].spec());
  }
  check_devices(*op, inputs, device);
  Specs specs = op->infer(in);
  for (TensorSpec& spec : specs) spec.device = device;
  if (Tensors same = deferred(op, inputs, specs.size()); !same.empty()) return same;

  bool tape = should_record(inputs);
  Tensors pinned = inputs;
  Recorder* recorder = current_recorder();
  if (tape && recorder != nullptr)
    for (Tensor& input : pinned) input = recorder->snapshot(input);
  Tensors outputs = recorder != nullptr ? recorder->record(op, inputs, specs)
                                        : run_now(op, inputs, in, specs, device);
  if (tape && op->differentiable())
    record_on_tape(op, pinned, outputs);
  else
    stop_gradients(*op, tape, inputs, outputs);
  return outputs;
}

constexpr char kNoKernel[] =
    "{}: runs_on() returns true, but this op has no kernel; override run({}&, ...) or prepare()";

}  // namespace

bool Op::runs_on(DeviceKind kind) const { return kind == DeviceKind::cpu || kCuda; }

std::vector<Algorithm> Op::algorithms(SpecView, const Target&) const { return {Algorithm{}}; }

std::unique_ptr<Kernel> Op::prepare(SpecView, Context&, const Algorithm&) const {
  return std::make_unique<RunKernel>(*this);
}

void Op::run(CpuContext&, Buffers, Buffers, Buffer) const {
  throw DeviceError(fmt::format(kNoKernel, name(), "CpuContext"));
}

void Op::run(CudaContext&, Buffers, Buffers, Buffer) const {
  throw DeviceError(fmt::format(kNoKernel, name(), "CudaContext"));
}

Tensors Op::grad(const GradArgs&) const {
  throw Error(fmt::format("{}: this op has no gradient; use detach() on its result", name()));
}

std::shared_ptr<Storage> allocate_storage(size_t bytes, Device device, bool scratch) {
  auto storage = std::make_shared<Storage>(bytes, device);
  if (bytes == 0) return storage;
  Allocator& allocator = eager_allocator(device);
  try {
    storage->pointer = allocator.allocate(bytes);
  } catch (OutOfMemory& error) {
    error.locate(current_module_path(), current_op());
    if (const std::string held = largest_allocations(device); !held.empty())
      error.append("\nmemory of eager tensors, largest first:" + held);
    throw;
  }
  storage->owner = &allocator;
  record_allocation(*storage, scratch);
  return storage;
}

Tensors apply(const OpPtr& op, Tensors inputs) {
  try {
    return call(op, inputs);
  } catch (Error& error) {
    error.locate(current_module_path(), op->name());
    throw;
  }
}

Tensor apply1(const OpPtr& op, Tensors inputs) {
  return std::move(apply(op, std::move(inputs))[0]);
}

Cost Op::cost_with(SpecView in, int64_t flops) const {
  Cost cost{.flops = flops};
  const Specs out = infer(in);
  bool moves = false;  // a view also reads nothing
  for (size_t i = 0; i < out.size(); ++i) {
    if (view_of(static_cast<int>(i)) >= 0) continue;
    cost.bytes_written += static_cast<int64_t>(out[i].bytes());
    moves = true;
  }
  if (!moves) return {};
  for (const TensorSpec& x : in) cost.bytes_read += static_cast<int64_t>(x.bytes());
  return cost;
}

Cost Op::cost(SpecView in) const {
  const std::optional<ScalarProgram> program = pointwise();
  return cost_with(in, program ? program->operations() * infer(in)[0].shape.elements() : 0);
}

}  // namespace tessera
