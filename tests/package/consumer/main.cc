// Uses every tier through the installed headers: prints a product, and trains in external memory.
#include <cstdio>

#include <tessera/tessera.h>

namespace {

using namespace tessera;

alignas(kMemoryAlignment) std::byte persistent[1 << 10], slots[1 << 10], arena[1 << 12];

// Returns true if a compiled step learns and allocates no memory.
bool trains_in_its_own_memory() {
  Store store(1);
  const Tensor w = store.parameter("w", {64}, Initializer::ones());
  Sgd sgd(store, store.parameters(), {});
  auto step = compile([&](const Tensor& x, const Tensor& lr) {
    const Tensor loss = mean(exp(x * w));
    sgd.step(gradients(loss, store.parameters()), lr);
    return loss;
  });
  CompiledStep& ready = step.prepare({{DType::f32, {64}, {}}, {DType::f32, {}, {}}});
  Arenas& arenas = *step.arenas();
  if (ready.slot_bytes() > sizeof slots || arenas.bytes({}) > sizeof arena) return false;
  const auto before = cpu_memory().statistics().allocations;
  arenas.on({}).bring({arena, sizeof arena});
  ready.use_external_slots({slots, sizeof slots});
  store.materialize(Region("persistent", store.bytes(), {persistent, sizeof persistent}));
  Tensor(ready.input(0)).assign<float>(std::vector<float>(64, 0.5f));
  Tensor(ready.input(1)).assign_scalar(0.1);
  ready.run();
  const auto first = ready.output(0).item<float>();
  for (int i = 0; i < 5; ++i) ready.run();
  return ready.output(0).item<float>() < first && cpu_memory().statistics().allocations == before;
}

}  // namespace

int main() {
  const bool trained = trains_in_its_own_memory();
  Tensor a = from_vector<float>({2, 2}, {1, 2, 3, 4}), b = from_vector<float>({2, 2}, {5, 6, 7, 8});
  std::vector<float> y = matmul(a, b).to_vector<float>();
  std::printf("%g %g %g %g%s\n", y[0], y[1], y[2], y[3], trained ? ", in its own memory" : "");
}
