#include "tessera/models/run/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"
#include "tessera/runtime/host_memory.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {

namespace {

// A line built on the stack.
class Line {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    auto result =
        fmt::format_to_n(text_ + size_, sizeof(text_) - size_, format, std::forward<Args>(args)...);
    size_ = static_cast<size_t>(result.out - text_);
  }
  void number(double value, std::string_view if_not_finite) {
    if (std::isfinite(value)) {
      add("{:.9g}", value);
    } else {
      add("{}", if_not_finite);
    }
  }
  std::string_view text() const { return {text_, size_}; }

 private:
  char text_[512];
  size_t size_ = 0;
};

constexpr const char* kColumns[] = {
    "epoch",     "step",    "phase",     "loss", "accuracy", "lr", "images_per_second",
    "data_wait", "skipped", "loss_scale"};
constexpr size_t kEarlierColumns[] = {7, 8};  // earlier versions wrote fewer

// Returns the first line of metrics.csv.
std::string csv_names(size_t columns) {
  return fmt::format("{}\n", fmt::join(std::span(kColumns, columns), ","));
}

// Returns the step of a line that write() wrote, in CSV or JSON.
std::optional<int64_t> step_of_line(std::string_view line) {
  constexpr std::string_view kName = "\"step\": ";
  const bool json = line.starts_with('{');
  const size_t before = json ? line.find(kName) : line.find(',');
  if (before == std::string_view::npos) return {};
  line.remove_prefix(before + (json ? kName.size() : 1));
  int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return {};
  return step;
}

// Returns the folder, or its nearest existing parent.
std::filesystem::path nearest(const std::string& dir) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(dir, error);
  while (!std::filesystem::exists(path, error) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

}  // namespace

std::string resolved_config_path(const std::string& run_dir) {
  return run_dir + "/config.resolved.yaml";
}

std::string weights_path(const std::string& run_dir) { return run_dir + "/weights.safetensors"; }

void require_run_folder(const std::string& dir) {
  const std::filesystem::path there = nearest(dir);
  std::error_code error;
  const auto refuse = [&](const char* operation, const std::string& why) {
    throw RunFolderError(fmt::format("run folder: cannot {} '{}': '{}' {}; check run.dir",
                                     operation, dir, there.string(), why));
  };
  if (!std::filesystem::is_directory(there, error)) refuse("create", "is not a folder");
  if (::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    refuse("write", fmt::format("is not writable: {}", std::strerror(errno)));
}

int64_t room_for(const std::string& dir) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(nearest(dir), error);
  return error ? INT64_MAX : static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
}

void require_room(const std::string& dir, int64_t bytes) {
  const int64_t free = room_for(dir);
  if (free >= bytes) return;
  throw RunFolderError(fmt::format(
      "run folder: '{}': the disk has only {} free, but a checkpoint, the weights and the "
      "reports need {}; free disk space, or set another run.dir",
      dir, byte_text(free), byte_text(bytes)));
}

RunFolder::RunFolder(const Config& config, std::optional<int64_t> steps_done, FileSystem& files,
                     const std::string& remarks, std::vector<std::string_view> due)
    : files_(files), dir_(config.run.dir), due_(std::move(due)), csv_columns_(std::size(kColumns)) {
  std::error_code error;
  std::filesystem::create_directories(dir_, error);
  if (error) refuse_run_file(dir_, "create", error.value());
  put("config.resolved.yaml", print_config(config) + remarks);
  const auto events = [&](const std::string& dir) {
    std::filesystem::create_directories(dir, error);
    if (error) refuse_run_file(dir, "create", error.value());
    return std::make_unique<EventWriter>(dir, fmt::format("{}", getpid()),
                                         steps_done ? *steps_done + 1 : 0, files_);
  };
  train_events_ = events(dir_ + "/train");
  test_events_ = events(dir_ + "/test");
  if (config.data.validation.any()) validation_events_ = events(dir_ + "/validation");
  for (const size_t columns : kEarlierColumns)
    if (bytes_up_to("metrics.csv", csv_names(columns), steps_done) > 0) csv_columns_ = columns;
  const std::string names = csv_names(csv_columns_);
  csv_.emplace(files_, dir_ + "/metrics.csv", names, bytes_up_to("metrics.csv", names, steps_done));
  jsonl_.emplace(files_, dir_ + "/metrics.jsonl", "", bytes_up_to("metrics.jsonl", "", steps_done));
}

std::vector<int> RunFolder::descriptors() const {
  return {csv_->descriptor(), jsonl_->descriptor()};
}

std::vector<std::string> RunFolder::incomplete() const {
  std::vector<std::string> all;
  for (const std::string& error_summary :
       {csv_->error_summary("lines"), jsonl_->error_summary("lines"),
        train_events_->error_summary(),
        validation_events_ ? validation_events_->error_summary() : "",
        test_events_->error_summary()})
    if (!error_summary.empty()) all.push_back(error_summary);
  all.insert(all.end(), not_written_.begin(), not_written_.end());
  return all;
}

// Returns the offset of the first line that is incomplete, of a later step or due again.
int64_t RunFolder::bytes_up_to(const char* name, std::string_view first_line,
                               std::optional<int64_t> steps_done) const {
  if (!steps_done) return 0;
  const std::string path = dir_ + "/" + name;
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file && errno == ENOENT) return 0;
  if (!file) refuse_run_file(path, "read", errno);
  char line[sizeof(Line) + 1];
  int64_t end = 0;
  while (std::fgets(line, sizeof(line), file.get()) != nullptr) {
    const std::string_view text = line;
    const bool whole = text.ends_with('\n');
    const int64_t step = text == first_line ? 0 : step_of_line(text).value_or(INT64_MAX);
    const bool again =
        step == *steps_done && std::ranges::any_of(due_, [&](std::string_view phase) {
          return text.find(phase) != text.npos;
        });
    if (!whole || again || step > *steps_done) break;
    end += static_cast<int64_t>(text.size());
  }
  return end;
}

void RunFolder::put(const char* name, std::span<const std::string> pieces) const {
  const std::string path = dir_ + "/" + name;
  std::vector<std::span<const std::byte>> parts;
  for (const std::string& piece : pieces) parts.push_back(std::as_bytes(std::span(piece)));
  if (const FileError fault = write_durably(files_, path.c_str(), parts))
    refuse_run_file(path, fault.operation, fault.error);
}

void RunFolder::put_if_possible(const char* name, std::span<const std::string> pieces) {
  try {
    put(name, pieces);
  } catch (const Error& error) {
    not_written_.emplace_back(error.what());
    log(LogLevel::warning, not_written_.back());
  }
}

void RunFolder::put(const char* name, const std::function<void(const Piece&)>& write) const {
  const std::string path = dir_ + "/" + name;
  const File file(std::fopen(path.c_str(), "wb"));
  if (!file) refuse_run_file(path, "write", errno);
  write([&](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), file.get()); });
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()))
    refuse_run_file(path, "write", errno);
}

void RunFolder::add_command(const std::string& command, bool goes_on) const {
  put("command.txt", (goes_on ? run_file(dir_, "command.txt") : "") + command + "\n");
}

std::string run_file(const std::string& run_dir, const char* name) {
  std::error_code error;  // reads only regular files: a device would never end
  const std::string path = run_dir + "/" + name;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? text.str() : "";
}

void RunFolder::write_memory(const std::vector<MemoryItem>& blocks) const {
  std::string text = "name,bytes\n";
  for (const MemoryItem& block : blocks) text += fmt::format("{},{}\n", block.name, block.bytes);
  put("memory.csv", text);
}

void RunFolder::write_split(const DataSplit& data) const {
  if (!data.cut || data.test->file(0).empty()) return;
  put("split.csv", [&](const Piece& piece) {
    piece("part,file\n");
    for (const auto& [part, set] :
         {std::pair("train", &data.train), std::pair("validation", &data.validation),
          std::pair("test", &data.test)})
      for (int64_t i = 0; *set != nullptr && i < (*set)->count(); ++i)
        piece(fmt::format("{},{}\n", part, csv_field((*set)->file(i))));
  });
}

void RunFolder::write(const Metrics& metrics) {
  const double values[] = {
      metrics.loss,      metrics.accuracy, metrics.lr,        metrics.images_per_second,
      metrics.data_wait, metrics.skipped,  metrics.loss_scale};
  constexpr size_t kFirst = std::size(kColumns) - std::size(values);
  Line csv, json;  // not Json, which allocates: a training step must not
  csv.number(metrics.epoch, "");
  csv.add(",{},{}", metrics.step, metrics.phase);
  json.add("{{\"epoch\": ");
  json.number(metrics.epoch, "null");
  json.add(", \"step\": {}, \"phase\": \"{}\"", metrics.step, metrics.phase);
  for (size_t i = 0; i < std::size(values); ++i) {
    if (kFirst + i < csv_columns_) {
      csv.add(",");
      csv.number(values[i], "");
    }
    json.add(", \"{}\": ", kColumns[kFirst + i]);
    json.number(values[i], "null");
  }
  csv.add("\n");
  json.add("}}\n");
  csv_->append(csv.text());
  jsonl_->append(json.text());
  const std::string_view phase = metrics.phase;
  EventWriter* events = phase == "train" ? train_events_.get() : test_events_.get();
  if (phase == "validation") events = validation_events_.get();
  const auto point = [&](const char* tag, double value) {
    if (events != nullptr) events->scalar(tag, metrics.step, static_cast<float>(value));
  };
  point(metrics.whole ? "loss" : "batches/loss", metrics.loss);
  point(metrics.whole ? "accuracy" : "batches/accuracy", metrics.accuracy);
  point("images_per_second", metrics.images_per_second);
  if (phase != "train") return;
  const HostMemory memory = host_memory();
  point("lr", metrics.lr);
  point("data_wait", metrics.data_wait);
  if (std::isfinite(metrics.loss_scale)) {
    point("skipped", metrics.skipped);
    point("loss_scale", metrics.loss_scale);
  }
  point("host/process_bytes", static_cast<double>(memory.process));
  point("host/free_bytes", static_cast<double>(memory.free));
}

}  // namespace tessera
