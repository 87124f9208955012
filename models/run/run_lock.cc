// RunLock, and the files of an earlier training in a run folder.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/run/record_file.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Returns true for names by EventWriter, "events.out.tfevents.<seconds>.<process>". Other programs
// use other names.
bool is_own_events(std::string_view name) {
  constexpr std::string_view kPrefix = "events.out.tfevents.", kDigits = "0123456789";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const size_t point = name.find('.');
  if (point == 0 || point == name.npos || point + 1 == name.size()) return false;
  return name.substr(0, point).find_first_not_of(kDigits) == name.npos &&
         name.substr(point + 1).find_first_not_of(kDigits) == name.npos;
}

void remove_file(const std::string& path, FileSystem& files) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  if (there.type() != fs::file_type::regular && there.type() != fs::file_type::symlink) return;
  while (files.unlink(path.c_str()) < 0) {
    if (errno == ENOENT) return;
    if (errno != EINTR) refuse_run_file(path, "remove", errno);
  }
}

// Lists the files of an earlier version, "step-000000500.h5" and "weights.h5", the weights last.
std::vector<std::string> hdf5_files(const std::string& dir) {
  const auto is_checkpoint = [](std::string_view name) {
    const size_t digits =
        name.size() - std::min<size_t>(name.size(), 8);  // without "step-" and ".h5"
    return name.starts_with("step-") && name.ends_with(".h5") && digits >= 9 &&
           name.substr(5, digits).find_first_not_of("0123456789") == name.npos;
  };
  std::vector<std::string> found;
  for (const std::string& name : names_in(checkpoints_path(dir)))
    if (is_checkpoint(name)) found.push_back(checkpoints_path(dir) + "/" + name);
  std::ranges::sort(found);
  std::error_code error;
  if (fs::is_regular_file(dir + "/weights.h5", error)) found.push_back(dir + "/weights.h5");
  return found;
}

}  // namespace

RunLock::RunLock(std::string dir) : dir_(std::move(dir)) {
  std::error_code error;
  if (fs::is_directory(dir_, error)) take();
}

RunLock::~RunLock() {
  if (locked_ >= 0) ::close(locked_);
}

void RunLock::make() {
  if (locked_ >= 0) return;
  make_run_folder(dir_);
  take();
}

// Locks the folder. On a file system without locks, the folder stays unlocked.
void RunLock::take() {
  locked_ = ::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (locked_ < 0) refuse_run_file(dir_, "open", errno);
  if (flock(locked_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(locked_);
  locked_ = -1;
  throw ConfigError(fmt::format(
      "run folder: another process is training in '{}'; wait for it, or set another run.dir",
      dir_));
}

EarlierTraining earlier_training(const std::string& dir, FileSystem& files) {
  EarlierTraining found;
  const std::vector<int64_t> steps = CheckpointFolder(checkpoints_path(dir), files).steps();
  if (!steps.empty()) found.checkpoint = steps.back();
  std::error_code error;
  found.weights = fs::is_regular_file(weights_path(dir), error);
  std::ifstream metrics(dir + "/metrics.csv", std::ios::binary);
  std::string names, line;
  found.metrics = std::getline(metrics, names) && std::getline(metrics, line);
  return found;
}

void refuse_hdf5_run(const std::string& dir, FileSystem& files) {
  const std::vector<std::string> old = hdf5_files(dir);
  if (old.empty()) return;
  const EarlierTraining there = earlier_training(dir, files);
  if (there.checkpoint || there.weights) return;
  throw ConfigError(fmt::format(
      "run folder: '{}' has HDF5 files of an earlier version of this program, which cannot be "
      "resumed; set another run.dir, and model.weights={} to start from these weights",
      dir, old.back()));
}

// Removes the configuration last, because it identifies a run folder.
void remove_run_files(const std::string& dir, FileSystem& files) {
  const CheckpointFolder checkpoints(checkpoints_path(dir), files);
  checkpoints.remove_partial_files();
  for (const char* name : {"latest", "best"}) remove_file(checkpoints.dir() + "/" + name, files);
  for (int64_t step : checkpoints.steps()) remove_file(checkpoints.path(step), files);
  for (const std::string& old : hdf5_files(dir)) remove_file(old, files);
  std::vector<std::string> names = {"weights.safetensors", "report.html",    "metrics.csv",
                                    "metrics.jsonl",       "memory.csv",     "env.json",
                                    "command.txt",         "plan.json",      "plan.html",
                                    "model.txt",           "inference.json", "split.csv"};
  for (const char* part : {"", "train/", "validation/", "test/"})
    for (const std::string& name : names_in(dir + "/" + part))
      if (is_own_events(name)) names.push_back(part + name);
  names.push_back("config.resolved.yaml");
  for (const std::string& name : names)
    for (const char* partial : {".partial", ""}) remove_file(dir + "/" + name + partial, files);
}

}  // namespace tessera
