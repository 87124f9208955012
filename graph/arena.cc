#include "tessera/graph/arena.h"

#include <fmt/format.h>

namespace tessera {

ArenasInUse::ArenasInUse(Arenas& arenas, const Specs& arguments) : user_(arenas.user_) {
  const std::thread::id me = std::this_thread::get_id();
  if (user_.load(std::memory_order_relaxed) == me) return;
  std::thread::id no_thread;
  outermost_ = user_.compare_exchange_strong(no_thread, me, std::memory_order_acquire);
  if (outermost_) return;
  std::string texts;
  for (const TensorSpec& spec : arguments)
    texts += fmt::format("{}{}", texts.empty() ? "" : ", ", spec.text());
  throw ConcurrentCall(fmt::format(
      "compiled function of ({}): one thread at a time may run it, but another runs it, or one "
      "that "
      "shares its arenas; give each thread a compiled function of its own, or hold a lock around "
      "each call and its gradients",
      texts));
}

ArenasInUse::~ArenasInUse() {
  if (outermost_) user_.store({}, std::memory_order_release);
}

}  // namespace tessera
