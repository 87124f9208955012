#include "tessera/models/run/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
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

constexpr const char* kPhases[] = {"train", "validation", "test"};

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

// The columns after epoch, step and phase.
constexpr std::pair<const char*, double Metrics::*> kColumns[] = {
    {"loss", &Metrics::loss},
    {"accuracy", &Metrics::accuracy},
    {"lr", &Metrics::lr},
    {"images_per_second", &Metrics::images_per_second},
    {"data_wait", &Metrics::data_wait},
    {"skipped", &Metrics::skipped},
    {"loss_scale", &Metrics::loss_scale},
};
constexpr size_t kEarlierColumns[] = {4, 5};  // earlier versions wrote fewer

// Returns the first line of metrics.csv.
std::string csv_names(size_t columns) {
  std::string names = "epoch,step,phase";
  for (const auto& [name, value] : std::span(kColumns, columns)) names += fmt::format(",{}", name);
  return names + "\n";
}

// Returns the phase as a static string; nullptr for another word.
const char* phase_of(std::string_view word) {
  for (const char* phase : kPhases)
    if (word == phase) return phase;
  return nullptr;
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
  make_run_folder(dir_);
  put("config.resolved.yaml", print_config(config) + remarks);
  for (const char* phase : kPhases) {
    if (std::string_view(phase) == "validation" && !config.data.validation.any()) continue;
    const std::string dir = dir_ + "/" + phase;
    make_run_folder(dir);
    events_.emplace_back(phase,
                         std::make_unique<EventWriter>(dir, fmt::format("{}", getpid()),
                                                       steps_done ? *steps_done + 1 : 0, files_));
  }
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
  const auto add = [&](const std::string& summary) {
    if (!summary.empty()) all.push_back(summary);
  };
  for (const auto* file : {&csv_, &jsonl_}) add((*file)->error_summary("lines"));
  for (const auto& [phase, events] : events_) add(events->error_summary());
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

std::vector<Metrics> read_metrics(const std::string& path) {
  std::ifstream in(path);
  std::error_code error;  // reading a device would never end
  if (!in || !std::filesystem::is_regular_file(path, error))
    throw DataError(fmt::format("{}: cannot be read", path));
  std::vector<Metrics> metrics;
  std::string line;
  std::getline(in, line);  // column names
  while (std::getline(in, line)) {
    std::vector<std::string> fields;
    for (size_t from = 0, comma; from <= line.size(); from = comma + 1) {
      comma = std::min(line.find(',', from), line.size());
      fields.push_back(line.substr(from, comma - from));
    }
    if (fields.size() < 3 + kEarlierColumns[0] || phase_of(fields[2]) == nullptr) continue;
    const auto number = [&](size_t i) {
      double value = NAN;  // an empty field
      std::from_chars(fields[i].data(), fields[i].data() + fields[i].size(), value);
      return value;
    };
    Metrics m{
        .epoch = number(0), .step = static_cast<int64_t>(number(1)), .phase = phase_of(fields[2])};
    for (size_t i = 0; i < std::min(std::size(kColumns), fields.size() - 3); ++i)
      m.*kColumns[i].second = number(3 + i);
    metrics.push_back(m);
  }
  return metrics;
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
  Line csv, json;  // not Json, which allocates: a training step must not
  csv.number(metrics.epoch, "");
  csv.add(",{},{}", metrics.step, metrics.phase);
  json.add("{{\"epoch\": ");
  json.number(metrics.epoch, "null");
  json.add(", \"step\": {}, \"phase\": \"{}\"", metrics.step, metrics.phase);
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    const auto& [name, value] = kColumns[i];
    if (i < csv_columns_) {
      csv.add(",");
      csv.number(metrics.*value, "");
    }
    json.add(", \"{}\": ", name);
    json.number(metrics.*value, "null");
  }
  csv.add("\n");
  json.add("}}\n");
  csv_->append(csv.text());
  jsonl_->append(json.text());
  const std::string_view phase = metrics.phase;
  const auto point = [&](const char* tag, double value) {
    for (const auto& [name, events] : events_)
      if (name == phase) events->scalar(tag, metrics.step, static_cast<float>(value));
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
