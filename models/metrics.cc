#include "tessera/models/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

[[noreturn]] void fail(const std::string& path, const char* doing, int error) {
  throw Error(fmt::format("run folder: cannot {} '{}': {}; check run.dir", doing, path,
                          std::strerror(error)));
}

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

}  // namespace

std::string resolved_config_path(const std::string& run_dir) {
  return run_dir + "/config.resolved.yaml";
}

std::string weights_path(const std::string& run_dir) { return run_dir + "/weights.h5"; }

RunFolder::RunFolder(const Config& config) : dir_(config.run.dir) {
  std::error_code error;
  std::filesystem::create_directories(dir_, error);
  if (error) fail(dir_, "make", error.value());
  File resolved = start("config.resolved.yaml");
  append(resolved.get(), "config.resolved.yaml", print_config(config));
  csv_ = start("metrics.csv");
  append(csv_.get(), "metrics.csv", "epoch,step,phase,loss,accuracy,lr,images_per_second\n");
  jsonl_ = start("metrics.jsonl");
}

RunFolder::File RunFolder::start(const char* name) const {
  std::string path = dir_ + "/" + name;
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) fail(path, "write", errno);
  return file;
}

void RunFolder::append(std::FILE* file, const char* name, std::string_view line) const {
  if (std::fwrite(line.data(), 1, line.size(), file) != line.size() || std::fflush(file) != 0) {
    fail(dir_ + "/" + name, "write", errno);
  }
}

void RunFolder::write_memory(const std::vector<HostBuffer>& blocks) const {
  std::string text = "name,bytes\n";
  for (const HostBuffer& block : blocks) text += fmt::format("{},{}\n", block.name, block.bytes);
  append(start("memory.csv").get(), "memory.csv", text);
}

void RunFolder::write(const Metrics& metrics) {
  const struct {
    const char* name;
    double value;
  } values[] = {{"loss", metrics.loss},
                {"accuracy", metrics.accuracy},
                {"lr", metrics.lr},
                {"images_per_second", metrics.images_per_second}};
  Line csv, json;
  csv.number(metrics.epoch, "");
  csv.add(",{},{}", metrics.step, metrics.phase);
  json.add("{{\"epoch\": ");
  json.number(metrics.epoch, "null");
  json.add(", \"step\": {}, \"phase\": \"{}\"", metrics.step, metrics.phase);
  for (const auto& [name, value] : values) {
    csv.add(",");
    csv.number(value, "");
    json.add(", \"{}\": ", name);
    json.number(value, "null");
  }
  csv.add("\n");
  json.add("}}\n");
  append(csv_.get(), "metrics.csv", csv.text());
  append(jsonl_.get(), "metrics.jsonl", json.text());
}

}  // namespace tessera
