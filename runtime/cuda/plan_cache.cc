#include "tessera/runtime/cuda/plan_cache.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tessera/runtime/files/sealed_file.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/random.h"
#include "tessera/runtime/text/json.h"

namespace tessera {
namespace {

constexpr int64_t kFormat = 1;
constexpr uint64_t kMostBytes = uint64_t{1} << 26;  // no entry is as large: not to believe a size

// Throws Error, without the name of the file, saying what is wrong with it.
CachedPlan read_entry(const std::string& path, std::string_view key, FileSystem& files) {
  const FileSource file(path, files);
  if (file.size() > kMostBytes) throw Error("is larger than any entry");
  bool sealed = false;
  if (!seal_holds(file, sealed)) throw Error(sealed ? "is damaged" : "is cut off or no entry");
  std::string text(file.size() - kSealBytes, '\0');
  file.read(0, text.data(), text.size());
  const Json entry = Json::parse(text);
  if (entry["format"].integer() != kFormat) throw Error("is of another version of the cache");
  if (entry["key"].string() != key) throw Error("is of another plan");
  return {.text = entry["plan"].string(),
          .engine = entry["engine"].integer(),
          .workspace_bytes = entry["workspace_bytes"].integer(),
          .notes = static_cast<uint32_t>(entry["notes"].integer()),
          .microseconds = entry["microseconds"].number()};
}

// A name for what is written before it is renamed, of this process and call alone.
std::string partial_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}.{}.{}", path, getpid(), count++);
}

// Without waiting for the disk: an entry lost with the power is made again. False, and errno.
bool write_entry(const std::string& path, std::string_view text, FileSystem& files) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  char seal[kSealBytes];
  make_seal(bytes, seal);
  const std::string partial = partial_name(path);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const int file = files.open(partial.c_str(), kFlags, 0666);
  if (file < 0) return false;
  bool good =
      write_all(files, file, bytes) && write_all(files, file, std::as_bytes(std::span(seal)));
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
  return fmt::format("{}/plan-{:016x}", folder_, random_key(0, key));
}

std::optional<CachedPlan> PlanCache::find(std::string_view key) {
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

void PlanCache::keep(std::string_view key, const CachedPlan& plan) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string text = Json::object({{"format", kFormat},
                                         {"key", key},
                                         {"engine", plan.engine},
                                         {"workspace_bytes", plan.workspace_bytes},
                                         {"notes", plan.notes},
                                         {"microseconds", plan.microseconds},
                                         {"plan", plan.text}})
                               .text();
  if (!write_entry(file_of(key), text, files_))
    warn_once(warned_of_folder_,
              fmt::format("plans cannot be kept in '{}': {}; each start makes them anew", folder_,
                          std::strerror(errno)));
}

void PlanCache::refuse(std::string_view key, std::string_view why) {
  warn_once(warned_of_entry_,
            fmt::format("the plan kept in '{}' {}; it is made anew, and so is every other like it",
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
