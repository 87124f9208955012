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
  throw ConcurrentCall(
      fmt::format("compiled function of ({}): only one thread at a time may run it, but another "
                  "thread is running it or a function that shares its arenas; use one compiled "
                  "function per thread, or hold a lock around each call and its gradients",
                  texts));
}

ArenasInUse::~ArenasInUse() {
  if (outermost_) user_.store({}, std::memory_order_release);
}

}  // namespace tessera
