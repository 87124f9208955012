// The reader of checkpoints, with a valid checksum: any bytes give a whole checkpoint or an error.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/checkpoint.h"
#include "tessera/runtime/error.h"

using namespace tessera;

namespace {

struct Into {
  Into() : store(1) {
    store.parameter("a.w", {3, 5}, Initializer::normal(1));
    store.parameter("a.b", {5}, Initializer::uniform(1), DType::f64);
    store.buffer("bn.running_mean", {5}, Initializer::normal(2));
    store.optimizer_state("optimizer.momentum.a.w", {3, 5}, Initializer::normal(3));
    store.optimizer_state("optimizer.step", {1}, Initializer::zeros(), DType::i64);
    store.materialize();
  }
  Store store;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Into into;
  std::vector<std::byte> bytes(size + kSealBytes);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  char seal[kSealBytes];
  make_seal({bytes.data(), size}, seal);
  std::memcpy(bytes.data() + size, seal, kSealBytes);
  try {
    const CheckpointFile file(std::make_unique<MemorySource>(bytes), "fuzz");
    const TrainingState& state = file.state();
    if (state.batch < 0 || state.batch >= state.batches || state.step < 0) std::abort();
    file.load(into.store.persistent());
  } catch (const CheckpointError&) {
  }
  return 0;
}
