// What pictures show, by a trained network: `trainer predict`, and the program predict.
#pragma once

#include <string>
#include <vector>

#include "tessera/tools/command_line.h"

namespace tessera {

struct PredictOptions {
  std::string run, checkpoint;
  std::vector<std::string> inputs;  // files, folders, or "-": paths on standard input
  int top = 5, batch = 1, threads = 0;
  bool json = false, csv = false;
};

void add_predict_options(CLI::App& app, PredictOptions& options);

// Writes to standard output. Files that are no pictures are named on standard error, the others go
// on. Returns the exit code: 3 where there was such a file.
int predict(const PredictOptions& options);

}  // namespace tessera
