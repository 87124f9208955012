#include "tessera/engine/holders.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

thread_local std::string_view running;

struct Holders {
  std::mutex mutex;
  std::unordered_map<const Storage*, std::string> of;
};

// Outlives tensors that end after main.
Holders& holders() {
  static auto* all = new Holders;
  return *all;
}

}  // namespace

RunningOp::RunningOp(std::string_view name) : outer_(std::exchange(running, name)) {}
RunningOp::~RunningOp() { running = outer_; }
std::string_view running_op() { return running; }

void hold(const Storage& storage, bool scratch) {
  std::string holder = op_at(running.empty() ? "creation" : running, current_module_path());
  if (scratch) holder += " (scratch)";
  const std::lock_guard lock(holders().mutex);
  holders().of[&storage] = std::move(holder);
}

void let_go(const Storage& storage) noexcept {
  const std::lock_guard lock(holders().mutex);
  holders().of.erase(&storage);
}

std::string largest_holders(Device device, size_t count) {
  struct Sum {
    size_t bytes = 0, tensors = 0;
  };
  std::map<std::string, Sum> sums;
  {
    const std::lock_guard lock(holders().mutex);
    for (const auto& [storage, holder] : holders().of) {
      if (storage->device != device) continue;
      sums[holder].bytes += storage->bytes;
      ++sums[holder].tensors;
    }
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  if (order.size() > count) order.resize(count);
  std::string text;
  for (const auto& [holder, sum] : order)
    text += fmt::format("\n  {:>12}  {}{}", byte_text(static_cast<int64_t>(sum.bytes)), holder,
                        sum.tensors == 1 ? "" : fmt::format(", {} tensors", sum.tensors));
  return text;
}

}  // namespace tessera
