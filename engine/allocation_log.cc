#include "tessera/engine/allocation_log.h"

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

struct AllocationLog {
  std::mutex mutex;
  std::unordered_map<const Storage*, std::string> of;
};

// Never destroyed: tensors may be destroyed after main().
AllocationLog& log() {
  static auto* all = new AllocationLog;
  return *all;
}

}  // namespace

CurrentOpScope::CurrentOpScope(std::string_view name) : outer_(std::exchange(running, name)) {}
CurrentOpScope::~CurrentOpScope() { running = outer_; }
std::string_view current_op() { return running; }

void record_allocation(const Storage& storage, bool scratch) {
  std::string tag = op_at(running.empty() ? "creation" : running, current_module_path());
  if (scratch) tag += " (scratch)";
  const std::lock_guard lock(log().mutex);
  log().of[&storage] = std::move(tag);
}

void record_release(const Storage& storage) noexcept {
  const std::lock_guard lock(log().mutex);
  log().of.erase(&storage);
}

std::string largest_allocations(Device device, size_t count) {
  struct Sum {
    size_t bytes = 0, tensors = 0;
  };
  std::map<std::string, Sum> sums;
  {
    const std::lock_guard lock(log().mutex);
    for (const auto& [storage, tag] : log().of) {
      if (storage->device != device) continue;
      sums[tag].bytes += storage->bytes;
      ++sums[tag].tensors;
    }
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  if (order.size() > count) order.resize(count);
  std::string text;
  for (const auto& [tag, sum] : order)
    text += fmt::format("\n  {:>12}  {}{}", byte_text(static_cast<int64_t>(sum.bytes)), tag,
                        sum.tensors == 1 ? "" : fmt::format(", {} tensors", sum.tensors));
  return text;
}

}  // namespace tessera
