#include "tessera/runtime/cuda/plan_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"
#include "tessera/runtime/files/sha256.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

constexpr int64_t kFormat = 2;
constexpr size_t kSeal = 65;                       // a digest and a newline
constexpr uint64_t kMaxBytes = uint64_t{1} << 26;  // larger than any entry

std::string sealed(const std::string& text) { return sha256_of(text) + '\n' + text; }

Json json_of(const CachedPlan& plan) {
  return Json::object({{"engine", plan.engine},
                       {"workspace_bytes", plan.workspace_bytes},
                       {"notes", plan.notes},
                       {"microseconds", plan.microseconds},
                       {"plan", plan.text}});
}

CachedPlan plan_of(const Json& json) {
  return {.text = json["plan"].string(),
          .engine = json["engine"].integer(),
          .workspace_bytes = json["workspace_bytes"].integer(),
          .notes = static_cast<uint32_t>(json["notes"].integer()),
          .microseconds = json["microseconds"].number()};
}

// Throws Error that says what is wrong, without the file name.
CachedPlans read_entry(const std::string& path, std::string_view key, FileSystem& files) {
  const FileSource file(path, files);
  if (file.size() > kMaxBytes) throw Error("the file is larger than any entry");
  std::string all(file.size(), '\0');
  file.read(0, all.data(), all.size());
  const std::string text = all.substr(std::min(kSeal, all.size()));
  if (all != sealed(text)) throw Error("the file is damaged or truncated");
  const Json entry = Json::parse(text);
  if (entry["format"].integer() != kFormat)
    throw Error("it belongs to another version of the cache");
  if (entry["key"].string() != key) throw Error("it belongs to another plan");
  CachedPlans plans;
  for (const Json& plan : entry["plans"].items()) plans.push_back(plan_of(plan));
  if (plans.empty()) throw Error("it contains no plan");
  return plans;
}

// Returns a temporary name that is unique to this process and call.
std::string partial_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}.{}.{}", path, getpid(), count++);
}

// Writes an entry without fsync: an entry lost in a power failure is replaced. Returns false and
// sets errno on failure.
bool write_entry(const std::string& path, std::string_view text, FileSystem& files) {
  const std::string partial = partial_name(path);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const int file = files.open(partial.c_str(), kFlags, 0666);
  if (file < 0) return false;
  bool good = write_all(files, file, std::as_bytes(std::span(text)));
  int error = errno;
  if (files.close(file) != 0 && good) good = false, error = errno;
  if (good && files.rename(partial.c_str(), path.c_str()) != 0) good = false, error = errno;
  if (!good) files.unlink(partial.c_str());
  errno = error;
  return good;
}

std::string from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

PlanCache::PlanCache(std::string folder, FileSystem& files)
    : folder_(std::move(folder)), files_(files) {}

std::string PlanCache::file_of(std::string_view key) const {
  return fmt::format("{}/plan-{}", folder_, sha256_of(key));
}

std::optional<CachedPlans> PlanCache::find(std::string_view key) {
  if (folder_.empty()) return std::nullopt;
  const std::string path = file_of(key);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  try {
    return read_entry(path, key, files_);
  } catch (const Error& fault) {
    refuse(key, fault.what());
  }
  return std::nullopt;
}

void PlanCache::keep(std::string_view key, const CachedPlans& plans) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const Json entry =
      Json::object({{"format", kFormat}, {"key", key}, {"plans", Json::list_of(plans, json_of)}});
  if (!write_entry(file_of(key), sealed(entry.text()), files_))
    warn_once(warned_of_folder_,
              fmt::format("cannot store plans in '{}': {}; each start queries cuDNN again", folder_,
                          std::strerror(errno)));
}

void PlanCache::refuse(std::string_view key, std::string_view why) {
  warn_once(
      warned_of_entry_,
      fmt::format(
          "cannot use the cached plan in '{}': {}; this and all other unusable plans are replaced",
          file_of(key), why));
}

void PlanCache::warn_once(std::atomic<bool>& warned, const std::string& text) {
  if (!warned.exchange(true)) log(LogLevel::warning, text);
}

std::string plan_cache_folder() {
  if (const std::string named = from_environment("TESSERA_CACHE"); !named.empty())
    return named == "off" ? "" : named;
  if (const std::string caches = from_environment("XDG_CACHE_HOME"); !caches.empty())
    return caches + "/tessera";
  const std::string home = from_environment("HOME");
  return home.empty() ? "" : home + "/.cache/tessera";
}

PlanCache& plan_cache() {
  static PlanCache cache(plan_cache_folder());
  return cache;
}

}  // namespace tessera
