#include "tessera/layers/ops/exchange.h"

#include <algorithm>
#include <cstring>

#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

void set_buffers(FoldJob& job, Buffers in, Buffers out) {
  for (size_t i = 0; i < job.own.size(); ++i) job.own[i] = in[i].as<const float>();
  for (size_t t = 0; t < job.result.size(); ++t) job.result[t] = out[t].as<float>();
  job.received = out.back().as<float>();
}

void set_buffers(SpreadJob& job, Buffers in, Buffers out) {
  for (size_t i = 0; i < job.own.size(); ++i) job.own[i] = in[i].as<const float>();
  for (size_t i = 0; i < job.others.size(); ++i) job.others[i] = out[i].as<float>();
}

template <class Job>
struct ExchangeParams {
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<Job> job;
  Specs out;  // the results, then memory that messages arrive in
  size_t results = 0;
  bool operator==(const ExchangeParams& other) const { return job == other.job; }
};

// Posts the job, which reads the inputs and writes the outputs until it is waited for.
template <class Job>
class ExchangeStart final : public OpBase<ExchangeStart<Job>, ExchangeParams<Job>> {
 public:
  using OpBase<ExchangeStart, ExchangeParams<Job>>::OpBase;
  using OpBase<ExchangeStart, ExchangeParams<Job>>::params;
  std::string_view name() const override { return "exchange_start"; }
  bool is_asynchronous() const override { return true; }
  Specs infer(SpecView) const override { return params.out; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    set_buffers(*params.job, in, out);
    params.exchange->post(*params.job);
  }
};

// Reads the results and all else that the job uses, so that none of it is overwritten before.
template <class Job>
class ExchangeWait final : public OpBase<ExchangeWait<Job>, ExchangeParams<Job>> {
 public:
  using OpBase<ExchangeWait, ExchangeParams<Job>>::OpBase;
  using OpBase<ExchangeWait, ExchangeParams<Job>>::params;
  std::string_view name() const override { return "exchange_wait"; }
  bool is_asynchronous() const override { return true; }
  Specs infer(SpecView) const override {
    return {params.out.begin(), params.out.begin() + static_cast<std::ptrdiff_t>(params.results)};
  }
  uint32_t may_reuse(int output) const override { return output < 32 ? 1u << output : 0; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    params.exchange->wait(*params.job);
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].data != in[i].data) std::memcpy(out[i].data, in[i].data, out[i].spec.bytes());
  }
};

template <class Job>
Exchanged start(ExchangeParams<Job> params, Tensors inputs) {
  const Device device = inputs[0].device();
  for (Tensor& input : inputs) {
    if (input.dtype() != DType::f32)
      throw ShapeError("exchange: tensors must be float32, but one is " + input.spec().text());
    if (!device.is_cpu()) input = copy(input, Device{});
  }
  const DeviceScope cpu(Device{});
  Exchanged all{std::make_shared<ExchangeWait<Job>>(params),
                tessera::apply(std::make_shared<ExchangeStart<Job>>(params), inputs), device};
  all.tensors.insert(all.tensors.end(), inputs.begin(), inputs.end());
  return all;
}

}  // namespace

Tensors Exchanged::wait() const {
  Tensors results;
  {
    const DeviceScope cpu(Device{});
    results = tessera::apply(op, tensors);
  }
  if (!device.is_cpu())
    for (Tensor& result : results) result = copy(result, device);
  return results;
}

Exchanged start_fold(const std::shared_ptr<Exchange>& exchange, int tag, int64_t parts,
                     const std::vector<Tensors>& own) {
  std::vector<int64_t> elements;
  Specs out;
  Tensors inputs;
  for (const Tensors& sums : own) {
    elements.push_back(sums[0].elements());
    out.push_back({DType::f32, sums[0].shape(), {}});
    inputs.insert(inputs.end(), sums.begin(), sums.end());
  }
  auto job = std::make_shared<FoldJob>(*exchange, tag, parts, std::move(elements));
  out.push_back({DType::f32, {job->received_elements()}, {}});
  return start(ExchangeParams<FoldJob>{exchange, std::move(job), std::move(out), own.size()},
               inputs);
}

Exchanged start_spread(const std::shared_ptr<Exchange>& exchange, int tag, int64_t parts,
                       const Tensors& own) {
  auto job = std::make_shared<SpreadJob>(*exchange, tag, parts, own[0].elements());
  const size_t others = job->others.size();
  const Specs out(others, {DType::f32, own[0].shape(), {}});
  return start(ExchangeParams<SpreadJob>{exchange, std::move(job), out, others}, own);
}

}  // namespace tessera
