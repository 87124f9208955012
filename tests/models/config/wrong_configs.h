// Wrong configurations with their expected errors. Each file has one class of mistakes, whose name
// begins the names of its cases.
//
//   === tab-mixed.yaml
//   data:
//     \x09workers: 1
//   === says
//   tab-mixed.yaml:2:3: error: a tab in the indentation; indent with spaces
//
// \xHH is a byte of a configuration, so that editors cannot change bytes that are not text.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tessera {

struct WrongConfig {
  std::string name;     // file name in the errors
  std::string written;  // the configuration in the file, with \xHH
  std::string says;

  std::string text() const {
    std::string bytes;
    for (size_t i = 0; i < written.size(); ++i) {
      if (written.compare(i, 2, "\\x") == 0) {
        bytes += static_cast<char>(std::stoi(written.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        bytes += written[i];
      }
    }
    return bytes;
  }
};

inline std::vector<WrongConfig> read_wrong_configs(const std::filesystem::path& path) {
  std::vector<WrongConfig> cases;
  std::string* part = nullptr;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line == "=== says") {
      part = &cases.back().says;
    } else if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", ""});
      part = &cases.back().written;
    } else {
      *part += line + "\n";
    }
  }
  return cases;
}

inline void write_wrong_configs(const std::filesystem::path& path,
                                const std::vector<WrongConfig>& cases) {
  std::ofstream file(path, std::ios::binary);
  for (const WrongConfig& c : cases)
    file << "=== " << c.name << "\n" << c.written << "=== says\n" << c.says;
}

}  // namespace tessera
