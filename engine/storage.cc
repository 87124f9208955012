#include "tessera/engine/storage.h"

#include <fmt/format.h>

#include "tessera/engine/allocation_log.h"
#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/store.h"
#include "tessera/memory/allocator.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

thread_local Recorder* recorder = nullptr;

}  // namespace

Storage::~Storage() {
  if (owner == nullptr || pointer == nullptr) return;
  if (auto* trace = AllocationTrace::current()) trace->released(pointer);
  record_release(*this);
  owner->release(pointer);
}

void* Storage::data() {
  if (pointer == nullptr && store != nullptr) store->materialize();
  return pointer;
}

char* TensorImpl::data() const {
  if (storage == nullptr)
    throw Error(fmt::format(
        "tensor: {} has no values while a step is being captured; read it after the step has run",
        spec.text()));
  return static_cast<char*>(storage->data()) + offset;
}

Tensor make_tensor(const TensorSpec& spec, std::shared_ptr<Storage> storage, int64_t offset) {
  auto impl = std::make_shared<TensorImpl>();
  impl->spec = spec;
  impl->storage = std::move(storage);
  impl->offset = offset;
  return Tensor(std::move(impl));
}

Tensor detach(const Tensor& tensor) {
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  impl->node = nullptr;
  impl->output = 0;
  impl->leaf = false;
  impl->stop = nullptr;
  return Tensor(std::move(impl));
}

Recorder* current_recorder() { return recorder; }
RecorderScope::RecorderScope(Recorder* fresh) : outer_(recorder) { recorder = fresh; }
RecorderScope::~RecorderScope() { recorder = outer_; }

}  // namespace tessera
