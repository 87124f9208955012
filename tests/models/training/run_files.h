// Reads the files of a training, to compare them with those of another.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera::testing_checkpoint {

// Returns the metrics without the columns of speed and data wait.
inline std::string without_speed(const std::string& csv) {
  std::istringstream lines(csv);
  std::string line, text;
  while (std::getline(lines, line)) {
    size_t first = 0;  // index of the cell in the line
    for (int column = 0; first != line.npos; ++column) {
      const size_t last = line.find(',', first);
      if (column != 6 && column != 7) text += line.substr(first, last - first) + ",";
      first = last == line.npos ? last : last + 1;
    }
    text += "\n";
  }
  return text;
}

// Returns the losses of all lines.
inline std::vector<double> losses_of(const std::string& csv) {
  std::istringstream lines(csv);
  std::string line, cell;
  std::vector<double> losses;
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::istringstream cells(line);
    for (int column = 0; column < 4; ++column) std::getline(cells, cell, ',');
    losses.push_back(std::stod(cell));
  }
  return losses;
}

// Returns a checkpoint's tensors without its configuration, which names the folder.
inline std::string values_after(const std::string& run_dir, int64_t step) {
  const CheckpointFolder folder(checkpoints_path(run_dir));
  const std::string bytes = read_all(CheckpointFile(folder.path(step)).path());
  std::string all;
  const SafetensorsContents contents =
      read_safetensors(MemorySource(std::as_bytes(std::span(bytes))));
  for (const SafeTensor& tensor : contents.tensors)
    if (tensor.name != kSealArray.name)
      all += tensor.name + bytes.substr(tensor.offset, tensor.bytes);
  return all;
}

}  // namespace tessera::testing_checkpoint
