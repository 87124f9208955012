#include "tessera/graph/host_staging.h"

#include <cstring>

#include "tessera/engine/storage.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Bytes of all arguments but the prefetched one, and of all results.
size_t argument_bytes(const SlotLayout& layout) { return layout.results - layout.arguments; }
size_t result_bytes(const SlotLayout& layout) { return layout.end() - layout.results; }

Tensor tensor_in(const std::shared_ptr<Region>& region, size_t offset, TensorSpec spec) {
  spec.device = Device{};
  auto storage = std::make_shared<Storage>(spec.bytes(), spec.device);
  storage->pointer = region->data() + offset;
  storage->keep = region;
  return make_tensor(spec, std::move(storage));
}

}  // namespace

size_t HostStaging::bytes(const CompiledGraph& compiled) {
  const SlotLayout& layout = *compiled.slot_layout;
  return 2 * (argument_bytes(layout) + result_bytes(layout));
}

HostStaging::HostStaging(Program& program)
    : program_(program),
      compiled_(program.compiled()),
      layout_(*compiled_.slot_layout),
      ctx_(context(compiled_.device())) {
  for (StagingBuffers& buffers : buffers_) make_buffers(buffers);
  arrived_ = ctx_.copy_stream().make_event();
}

bool HostStaging::is_prefetched(size_t i) const {
  return static_cast<int>(i) == layout_.prefetched;
}

void HostStaging::make_buffers(StagingBuffers& buffers) {
  RawMemory& memory = ctx_.staging_memory();
  buffers.arguments = std::make_shared<Region>("arguments", argument_bytes(layout_), memory);
  buffers.results = std::make_shared<Region>("results", result_bytes(layout_), memory);
  buffers.done = ctx_.stream().make_event();
  const Graph& graph = compiled_.graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    buffers.inputs.push_back(is_prefetched(i)
                                 ? Tensor()
                                 : tensor_in(buffers.arguments,
                                             compiled_.input_offsets[i] - layout_.arguments,
                                             graph.values[graph.inputs[i]].spec));
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    buffers.outputs.push_back(tensor_in(buffers.results,
                                        compiled_.output_offset(i) - layout_.results,
                                        graph.values[graph.outputs[i]].spec));
}

HostStaging::StagingBuffers& HostStaging::next() {
  if (submitted_ > collected_ + 1)
    throw Error(
        "step: two runs are submitted; collect() the first before writing arguments of the third");
  return buffers_[submitted_ % 2];
}

const Tensor& HostStaging::input(size_t i) {
  StagingBuffers& buffers = next();
  if (is_prefetched(i)) {
    const TensorSpec& spec = compiled_.graph.values[compiled_.graph.inputs.at(i)].spec;
    if (!buffers.inputs[i].defined()) {
      buffers.prefetched =
          std::make_shared<Region>("arguments", spec.bytes(), ctx_.staging_memory());
      buffers.inputs[i] = tensor_in(buffers.prefetched, 0, spec);
    }
    prefetched_from_ = buffers.prefetched->data();
  }
  return buffers.inputs.at(i);
}

void HostStaging::stage_input(size_t i, const void* staged) {
  StagingBuffers& buffers = next();
  if (is_prefetched(i)) {
    prefetched_from_ = staged;
    return;
  }
  TensorImpl& impl = *buffers.inputs.at(i).impl();
  std::memcpy(impl.data(), staged, impl.spec.bytes());
}

void HostStaging::issue_prefetch(const void* from, Stream& on) {
  const ValueId id = compiled_.graph.inputs[layout_.prefetched];
  ctx_.issue_from_host(program_.slots(), from, compiled_.graph.values[id].spec.bytes(), on);
}

void HostStaging::issue_arguments(const StagingBuffers& buffers) {
  ctx_.issue_from_host(program_.slots() + layout_.arguments, buffers.arguments->data(),
                       argument_bytes(layout_), ctx_.stream());
}

void HostStaging::submit() {
  StagingBuffers& buffers = next();
  const bool prefetches = layout_.prefetched >= 0;
  if (prefetches && prefetched_from_ == nullptr)
    throw Error("step: the largest argument must be written before submit()");
  program_.bind();
  Stream &compute = ctx_.stream(), &copies = ctx_.copy_stream();
  if (prefetches) {
    copies.wait(program_.prefetched_was_read());
    issue_prefetch(prefetched_from_, copies);
    copies.record(*arrived_);
  }
  issue_arguments(buffers);
  if (prefetches) compute.wait(*arrived_);
  program_.run();
  ctx_.issue_to_host(buffers.results->data(), program_.slots() + layout_.results,
                     result_bytes(layout_), compute);
  compute.record(*buffers.done);
  buffers.prefetched_from = std::exchange(prefetched_from_, nullptr);
  ++submitted_;
}

void HostStaging::collect() {
  if (collected_ == submitted_)
    throw Error("step: no run is submitted; call submit() before collect()");
  buffers_[collected_ % 2].done->synchronize();
  ++collected_;
}

const Tensor& HostStaging::output(size_t i) const {
  if (collected_ == 0)
    throw Error("step: no run has been collected yet; call collect() before reading results");
  return last().outputs.at(i);
}

int64_t HostStaging::skipped_updates() const {
  int64_t count = 0;
  if (collected_ > 0)
    std::memcpy(&count, last().results->data() + layout_.refused - layout_.results, sizeof count);
  return count;
}

void HostStaging::restore_inputs() {
  if (collected_ == 0) return;
  issue_arguments(last());
  if (layout_.prefetched >= 0) issue_prefetch(last().prefetched_from, ctx_.stream());
}

}  // namespace tessera
