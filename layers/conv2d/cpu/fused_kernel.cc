#include "tessera/layers/conv2d/cpu/fused_kernel.h"

#include <algorithm>

#include "tessera/engine/half_numbers.h"
#include "tessera/engine/lines.h"
#include "tessera/engine/prepare.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

constexpr size_t kMaxConsumers = 4, kMaxConsumerInputs = 8;

SpecView inputs_from(SpecView in, size_t begin, const ScalarProgram& p) {
  return in.subspan(begin, static_cast<size_t>(p.inputs) - 1);
}

const BlockwiseOp& blockwise(const ConvConsumer& consumer) {
  return dynamic_cast<const BlockwiseOp&>(*consumer.op);
}

// Calls fn(op, specs of its inputs) for the consumers.
template <class F>
void for_consumers(const ConvFusion& fusion, SpecView in, const TensorSpec& result, F fn) {
  size_t at = fusion.consumers_begin();
  for (const ConvConsumer& consumer : fusion.consumers) {
    Specs specs = {result};
    for (int k = 1; k < consumer.inputs; ++k) specs.push_back(in[at++]);
    fn(*consumer.op, specs);
  }
}

void append_own(std::vector<int>& inputs, size_t begin, size_t end, int without = -1) {
  for (int i = static_cast<int>(begin); i < static_cast<int>(end); ++i)
    if (i != without) inputs.push_back(i);
}
void append_fused(std::vector<int>& inputs, int count, int without = -1) {
  for (int k = 0; k < count; ++k)
    if (k != without) inputs.push_back(-1 - k);
}

ExtendedFusion prologue_of_input(const ConvFusion& own, const ScalarProgram& p, int main,
                                 size_t inputs) {
  ExtendedFusion extended{own, {-1 - main, 1}};
  extended.fusion.prologue = move_input_first(p, main);
  append_fused(extended.inputs, p.inputs, main);
  append_own(extended.inputs, 2, inputs);
  return extended;
}

// Fuses `p`, which computes an input of the epilogue; the inputs of p come last.
std::optional<ExtendedFusion> prologue_of_epilogue(const ConvFusion& own, const ScalarProgram& p,
                                                   int input, size_t inputs) {
  const int at = input - static_cast<int>(own.epilogue_begin()) + 1;
  auto whole = join_prologue(own.epilogue, p, at);
  if (!whole) return std::nullopt;
  ExtendedFusion extended{own, {}};
  extended.fusion.epilogue = *std::move(whole);
  append_own(extended.inputs, 0, own.consumers_begin(), input);
  append_fused(extended.inputs, p.inputs);
  append_own(extended.inputs, own.consumers_begin(), inputs);
  return extended;
}

size_t second_input(const ConvFusion& fusion, DType taken, SpecView in) {
  for (size_t k = 2; k < fusion.epilogue_begin(); ++k)
    if (in[k].shape == in[0].shape && in[k].dtype == taken) return k;
  return 0;
}

// The parts of scratch that precede the convolution's own: copies of inputs that are computed and
// of 16 bits that it does not take, and the counters of consumers. The same function counts and
// takes them.
struct FusedScratch {
  FusedScratch(void* base, const ConvFusion& fusion, DType taken, ConvVariant form, SpecView in)
      : layout(base) {
    const auto copy = [&](const TensorSpec& spec) {
      return layout.take<char>(spec.shape.elements() * bytes_of(taken));
    };
    for (size_t r = 0; r < fusion.consumers.size(); ++r)
      counters[r] = layout.take<int32_t>(BlocksAsWritten::counters(blockwise(fusion.consumers[r])));
    if (computes_input(fusion, taken, in) && !form.prologue) first = copy(in[0]);
    if (!form.wide_filters && (in[1].dtype != taken || is_half(fusion.filters)))
      second = copy(in[1]);
  }

  ScratchLayout layout;
  int32_t* counters[kMaxConsumers] = {};
  char *first = nullptr, *second = nullptr;
};

// T: the type that the convolution takes.
template <class T>
class FusedKernel final : public Kernel {
  using Sum = Computed<T>;

 public:
  FusedKernel(std::shared_ptr<const Convolution<T>> convolution, ConvVariant form,
              const ConvFusion& fusion, SpecView in, const TensorSpec& out)
      : convolution_(std::move(convolution)),
        form_(form),
        fusion_(fusion),
        in_(in.begin(), in.end()),
        prologue_(epilogue_plan(fusion.prologue, inputs_from(in, 2, fusion.prologue), in[0],
                                dtype_of<T>)),
        epilogue_(epilogue_plan(fusion.epilogue,
                                inputs_from(in, fusion.epilogue_begin(), fusion.epilogue),
                                computed(out), out.dtype)),
        activation_(out.dtype == dtype_of<T>
                        ? bias_activation(fusion.epilogue,
                                          inputs_from(in, fusion.epilogue_begin(), fusion.epilogue),
                                          computed(out), out.dtype)
                        : std::nullopt),
        second_(second_input(fusion, dtype_of<T>, in)) {}

  void run(Context& ctx, Buffers in, Buffers out, Buffer scratch) override {
    ThreadPool& pool = static_cast<CpuContext&>(ctx).pool();
    FusedScratch parts(scratch.data, fusion_, dtype_of<T>, form_, in_);
    Call call{EpilogueRun(prologue_, in.subspan(2), in[0]), {}, out[0].spec.shape.back()};
    start_consumers(call, in, out, parts);
    ConvHooks<T> hooks;
    const T* first = in[0].as<T>();
    if (!prologue_.is_identity() && form_.prologue) {
      hooks.prologue = {read, &call, second_ == 0 ? nullptr : in[second_].as<T>()};
    } else if (!prologue_.is_identity()) {
      T* const made = reinterpret_cast<T*>(parts.first);
      for_chunks(pool, in[0].elements(), [&](int64_t begin, int64_t count) {
        call.prologue.apply_to(made + begin, begin, count);
      });
      first = made;
    }
    if (form_.wide_filters) hooks.wide_filters = in[1].as<float>();
    const T* second =
        form_.wide_filters ? nullptr : make_filters(ctx, in[1], parts.second).template as<T>();
    if (!activate(in, out[0], hooks))
      call.epilogue.emplace(epilogue_, in.subspan(fusion_.epilogue_begin()), out[0]);
    if (call.epilogue || !fusion_.consumers.empty()) hooks.epilogue = {written, &call};
    Sum* const whole = form_.in_ranges ? nullptr : out[0].as<Sum>();
    convolution_->run(pool, first, second, whole, parts.layout.rest(), hooks);
  }

 private:
  struct Call {
    EpilogueRun prologue;
    std::optional<EpilogueRun> epilogue;  // not set if there is none or an activation is applied
    int64_t channels;                     // channels of the result
    size_t consumers = 0;
    Buffer inputs[kMaxConsumers][kMaxConsumerInputs] = {};  // inputs of each consumer
    std::optional<BlocksAsWritten> blocks[kMaxConsumers] = {};
  };

  static void read(void* call, T* to, int64_t first, int64_t count) {
    static_cast<const Call*>(call)->prologue.apply_to(to, first, count);
  }
  static void written(void* context, Sum* rows, int64_t first, int64_t count) {
    const Call& call = *static_cast<const Call*>(context);
    if (call.epilogue) call.epilogue->apply(first, count, rows);
    for (size_t r = 0; r < call.consumers; ++r)
      call.blocks[r]->written(first / call.channels, count / call.channels);
  }

  // Returns whether nothing is left of the epilogue; sets its activation, if it has one.
  bool activate(Buffers in, const Buffer& out, ConvHooks<T>& hooks) const {
    if constexpr (!std::is_same_v<T, double>)
      if (activation_) {
        hooks.activation = activation_->bound_to<T>(
            in.subspan(fusion_.epilogue_begin()), std::is_same_v<T, float> ? nullptr : out.as<T>());
        if (convolution_->applies(hooks.activation)) return true;
        hooks.activation = {};
      }
    return epilogue_.is_identity();
  }

  Buffer make_filters(Context& ctx, const Buffer& given, char* copy) const {
    if (copy == nullptr) return given;
    const Buffer made{copy, {dtype_of<T>, given.spec.shape, given.spec.device}};
    if constexpr (std::is_same_v<T, float>)
      if (is_half(fusion_.filters)) {
        for_chunks(static_cast<CpuContext&>(ctx).pool(), given.elements(),
                   [&](int64_t first, int64_t count) {
                     round_to_half(fusion_.filters, given.as<float>() + first, count,
                                   made.as<float>() + first);
                   });
        return made;
      }
    cast_elements(ctx, given, made);
    return made;
  }

  void start_consumers(Call& call, Buffers in, Buffers out, const FusedScratch& parts) const {
    size_t at = fusion_.consumers_begin();
    for (const ConvConsumer& consumer : fusion_.consumers) {
      const size_t r = call.consumers++, count = static_cast<size_t>(consumer.inputs);
      Buffer* inputs = call.inputs[r];
      inputs[0] = out[0];
      for (size_t k = 1; k < count; ++k) inputs[k] = in[at++];
      call.blocks[r].emplace(blockwise(consumer), Buffers(inputs, count), out[1 + r],
                             parts.counters[r]);
    }
  }

  const std::shared_ptr<const Convolution<T>> convolution_;
  const ConvVariant form_;
  const ConvFusion fusion_;
  const Specs in_;
  const PointwisePlan prologue_, epilogue_;
  const std::optional<BiasActivationPlan> activation_;
  const size_t second_;  // another input of the prologue with the shape of the first; 0: none
};

}  // namespace

Specs ConvFusion::outputs(SpecView in, const TensorSpec& result) const {
  Specs specs;
  for_consumers(*this, in, result,
                [&](const Op& op, SpecView of_op) { specs.push_back(op.infer(of_op)[0]); });
  return specs;
}

int64_t ConvFusion::flops(SpecView in, const TensorSpec& result) const {
  int64_t flops = epilogue_flops(prologue, in[0]) + epilogue_flops(epilogue, result);
  for_consumers(*this, in, result,
                [&](const Op& op, SpecView of_op) { flops += op.cost(of_op).flops; });
  return flops;
}

std::optional<ExtendedFusion> with_epilogue(const ConvFusion& own, const ScalarProgram& p,
                                            int fused_input, SpecView in, const TensorSpec& result,
                                            SpecView p_in) {
  if (!own.consumers.empty()) return std::nullopt;
  auto whole = join_epilogue(own.epilogue, p, fused_input, result, p_in);
  if (!whole) return std::nullopt;
  ExtendedFusion extended{own, join_inputs(in.size(), p, fused_input)};
  extended.fusion.epilogue = *whole;
  return extended;
}

std::optional<ExtendedFusion> with_prologue(const ConvFusion& own, const ScalarProgram& p,
                                            int input, SpecView in, const TensorSpec& result,
                                            SpecView p_in) {
  const int main = primary_input(p, in[static_cast<size_t>(input)], p_in);
  if (main < 0) return std::nullopt;
  if (input == 0 && own.prologue.code.empty()) return prologue_of_input(own, p, main, in.size());
  const auto at = static_cast<size_t>(input);
  if (at < own.epilogue_begin() || at >= own.consumers_begin()) return std::nullopt;
  if (in[at].shape != result.shape) return std::nullopt;
  return prologue_of_epilogue(own, p, input, in.size());
}

std::optional<ExtendedFusion> with_rounded_filters(const ConvFusion& own, const ScalarProgram& p,
                                                   SpecView in, SpecView p_in) {
  const DType rounded = in[1].dtype;
  if (!is_half(rounded) || p.code.empty() || !is_plain(p) || p_in[0].dtype != DType::f32 ||
      result_type(p, DType::f32) != rounded)
    return std::nullopt;
  ExtendedFusion extended{own, {}};
  extended.fusion.filters = rounded;
  append_own(extended.inputs, 0, in.size());
  extended.inputs[1] = -1;
  return extended;
}

std::optional<ExtendedFusion> with_consumer(const ConvFusion& own, const OpPtr& consumer,
                                            int fused_input, SpecView in, const TensorSpec& result,
                                            SpecView consumer_in) {
  const auto* op = dynamic_cast<const BlockwiseOp*>(consumer.get());
  if (op == nullptr || fused_input != 0 || own.consumers.size() == kMaxConsumers ||
      consumer_in.size() > kMaxConsumerInputs || consumer_in[0].shape != result.shape ||
      consumer_in[0].dtype != result.dtype ||
      op->blocks().rows * result.shape.back() != result.shape.elements())
    return std::nullopt;
  const auto half = [](const TensorSpec& spec) { return is_half(spec.dtype); };
  if (std::ranges::any_of(consumer_in, half) && !consumer->takes_half(DeviceKind::cpu, consumer_in))
    return std::nullopt;
  ExtendedFusion extended{own, {}};
  const int inputs = static_cast<int>(consumer_in.size());
  extended.fusion.consumers.push_back({consumer, inputs});
  append_own(extended.inputs, 0, in.size());
  append_fused(extended.inputs, inputs, 0);
  return extended;
}

bool computes_input(const ConvFusion& fusion, DType taken, SpecView in) {
  return !fusion.prologue.code.empty() || in[0].dtype != taken;
}

size_t fused_scratch(const ConvFusion& fusion, DType taken, ConvVariant form, SpecView in) {
  return FusedScratch(nullptr, fusion, taken, form, in).layout.size();
}

std::unique_ptr<Kernel> fused_kernel(const std::shared_ptr<const AnyConvolution>& convolution,
                                     DType taken, ConvVariant form, const ConvFusion& fusion,
                                     SpecView in, const TensorSpec& out) {
  return visit_types(ConvTypes(), taken, [&]<class T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<FusedKernel<T>>(
        std::static_pointer_cast<const Convolution<T>>(convolution), form, fusion, in, out);
  });
}

}  // namespace tessera
