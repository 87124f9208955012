#include "tessera/graph/twins.h"

#include <cstring>

#include "tessera/engine/storage.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Bytes of all arguments but the one that comes ahead, and of all results.
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

size_t Twins::bytes(const CompiledGraph& compiled) {
  const SlotLayout& layout = *compiled.slot_layout;
  return 2 * (argument_bytes(layout) + result_bytes(layout));
}

Twins::Twins(Program& program)
    : program_(program),
      layout_(*program.compiled().slot_layout),
      where_(context(program.compiled().device())) {
  for (Twin& twin : twins_) make_twin(twin);
  arrived_ = where_.copy_stream().make_event();
}

void Twins::make_twin(Twin& twin) {
  RawMemory& memory = where_.staging_memory();
  twin.arguments = std::make_shared<Region>("arguments", argument_bytes(layout_), memory);
  twin.results = std::make_shared<Region>("results", result_bytes(layout_), memory);
  twin.done = where_.stream().make_event();
  const Graph& graph = program_.compiled().graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    twin.inputs.push_back(is_ahead(i)
                              ? Tensor()
                              : tensor_in(twin.arguments,
                                          program_.compiled().input_offsets[i] - layout_.arguments,
                                          graph.values[graph.inputs[i]].spec));
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    twin.outputs.push_back(tensor_in(twin.results,
                                     program_.compiled().output_offset(i) - layout_.results,
                                     graph.values[graph.outputs[i]].spec));
}

Twins::Twin& Twins::next() {
  if (submitted_ > collected_ + 1)
    throw Error("step: two runs are submitted; collect() the first before the third is filled");
  return twins_[submitted_ % 2];
}

const Tensor& Twins::input(size_t i) {
  Twin& twin = next();
  if (is_ahead(i)) {
    const TensorSpec& spec =
        program_.compiled().graph.values[program_.compiled().graph.inputs.at(i)].spec;
    if (!twin.inputs[i].defined()) {
      twin.ahead = std::make_shared<Region>("arguments", spec.bytes(), where_.staging_memory());
      twin.inputs[i] = tensor_in(twin.ahead, 0, spec);
    }
    ahead_from_ = twin.ahead->data();
  }
  return twin.inputs.at(i);
}

void Twins::bring(size_t i, const void* staged) {
  Twin& twin = next();
  if (is_ahead(i)) {
    ahead_from_ = staged;
    return;
  }
  TensorImpl& impl = *twin.inputs.at(i).impl();
  std::memcpy(impl.data(), staged, impl.spec.bytes());
}

void Twins::issue_ahead(const void* from, Stream& on) {
  const ValueId id = program_.compiled().graph.inputs[static_cast<size_t>(layout_.ahead)];
  where_.issue_from_host(program_.slots(), from, program_.compiled().graph.values[id].spec.bytes(),
                         on);
}

void Twins::issue_arguments(const Twin& twin) {
  where_.issue_from_host(program_.slots() + layout_.arguments, twin.arguments->data(),
                         argument_bytes(layout_), where_.stream());
}

void Twins::submit() {
  Twin& twin = next();
  const bool ahead = layout_.ahead >= 0;
  if (ahead && ahead_from_ == nullptr)
    throw Error("step: its largest argument was not given before submit()");
  program_.bind();
  Stream &compute = where_.stream(), &copies = where_.copy_stream();
  if (ahead) {
    copies.wait(program_.ahead_was_read());
    issue_ahead(ahead_from_, copies);
    copies.record(*arrived_);
  }
  issue_arguments(twin);
  if (ahead) compute.wait(*arrived_);
  program_.run();
  where_.issue_to_host(twin.results->data(), program_.slots() + layout_.results,
                       result_bytes(layout_), compute);
  compute.record(*twin.done);
  twin.ahead_from = std::exchange(ahead_from_, nullptr);
  ++submitted_;
}

void Twins::collect() {
  if (collected_ == submitted_) throw Error("step: no run is submitted; there is none to collect");
  twins_[collected_ % 2].done->synchronize();
  ++collected_;
}

const Tensor& Twins::output(size_t i) const {
  if (collected_ == 0) throw Error("step: no run has been collected yet; it has no results");
  return last().outputs.at(i);
}

int64_t Twins::refused_updates() const {
  int64_t count = 0;
  if (collected_ > 0)
    std::memcpy(&count, last().results->data() + layout_.refused - layout_.results, sizeof count);
  return count;
}

void Twins::put_back() {
  if (collected_ == 0) return;
  issue_arguments(last());
  if (layout_.ahead >= 0) issue_ahead(last().ahead_from, where_.stream());
}

}  // namespace tessera
