// PlanCache: a disk cache of cuDNN's plans, so that later processes need not make them again. Needs
// no CUDA: a plan is a text here.
//
// An entry is a file named after its key. It contains the SHA-256 of the rest, then the key and its
// plans. It is written under a temporary name and renamed, so processes may share a folder: a
// reader finds a complete entry or none, and the last of two writers wins. An entry that is
// damaged, truncated, of another key or of another format version counts as missing. The first such
// file of a cache causes a warning, and it is replaced once its plan is known again. A cache
// that cannot be written causes one warning and no error.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/runtime/files/file_system.h"

namespace tessera {

struct CachedPlan {
  std::string text;  // cuDNN's text of the plan
  int64_t engine = -1;
  int64_t workspace_bytes = 0;
  uint32_t notes = 0;
  double microseconds = 0;  // 0: not measured
  bool operator==(const CachedPlan&) const = default;
};
// The plans of one key, in cuDNN's order: the fastest by its heuristic first.
using CachedPlans = std::vector<CachedPlan>;

class PlanCache {
 public:
  // Makes nothing on disk before the first keep(). If `folder` is empty, finds and stores nothing.
  explicit PlanCache(std::string folder, FileSystem& files = file_system());

  // Returns the plans of a key, never an empty list. Thread-safe, like keep(), which ignores empty
  // lists. Throws only std::bad_alloc.
  std::optional<CachedPlans> find(std::string_view key);
  void keep(std::string_view key, const CachedPlans& plans);
  // Reports found plans that cuDNN does not accept: they count as a damaged entry.
  void refuse(std::string_view key, std::string_view why);

  const std::string& folder() const { return folder_; }
  std::string file_of(std::string_view key) const;

 private:
  void warn_once(std::atomic<bool>& warned, const std::string& text);

  const std::string folder_;
  FileSystem& files_;
  std::atomic<bool> warned_of_entry_{false}, warned_of_folder_{false};
};

// Returns the folder of this user's plans: TESSERA_CACHE, else tessera/ in $XDG_CACHE_HOME, else
// ~/.cache/tessera; empty if TESSERA_CACHE is "off" or there is no home.
std::string plan_cache_folder();
// Returns the cache in that folder, which the first call looks up.
PlanCache& plan_cache();

}  // namespace tessera
