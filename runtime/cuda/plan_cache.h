// Plans of cuDNN kept on disk, so that a program which starts again need not ask for them again.
// Needs no CUDA: a plan is a text here.
//
// An entry is a file of its own, named after its key: the SHA-256 of what follows, then the key and
// the plans for it. It is written beside its place and renamed, so processes may share a folder: a
// reader finds an entry whole or not at all, and of two writers the last one's stays. What is
// damaged, cut off, of another key or of another version of this format counts as not there; the
// first such file that a cache meets is a warning, and it is replaced when its plan has been made
// anew. A cache that cannot be written is a warning too, once, and no error.
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
  std::string text;  // of the plan, as cuDNN gives it
  int64_t engine = -1;
  int64_t workspace_bytes = 0;
  uint32_t notes = 0;
  double microseconds = 0;  // 0: not measured
  bool operator==(const CachedPlan&) const = default;
};
// Several for one key, in cuDNN's order: that which it takes for the fastest first.
using CachedPlans = std::vector<CachedPlan>;

class PlanCache {
 public:
  // An empty folder: nothing is found and nothing kept. Nothing is made before the first keep().
  explicit PlanCache(std::string folder, FileSystem& files = file_system());

  // Thread-safe, as keep() is. Throws nothing but std::bad_alloc.
  // What is found is not empty, and nothing empty is kept.
  std::optional<CachedPlans> find(std::string_view key);
  void keep(std::string_view key, const CachedPlans& plans);
  // Plans that were found and that cuDNN does not take: they count as a damaged entry.
  void refuse(std::string_view key, std::string_view why);

  const std::string& folder() const { return folder_; }
  std::string file_of(std::string_view key) const;

 private:
  void warn_once(std::atomic<bool>& warned, const std::string& text);

  const std::string folder_;
  FileSystem& files_;
  std::atomic<bool> warned_of_entry_{false}, warned_of_folder_{false};
};

// Where this user's plans are: the folder that TESSERA_CACHE names, else tessera/ in
// $XDG_CACHE_HOME, else ~/.cache/tessera; empty where TESSERA_CACHE is "off" or there is no home.
std::string plan_cache_folder();
// The cache there; the folder is looked up at the first call.
PlanCache& plan_cache();

}  // namespace tessera
