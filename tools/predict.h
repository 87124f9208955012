// predict(): classifies pictures with a trained network, for `trainer predict` and the program
// predict.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/run/trained_network.h"
#include "tessera/tools/command_line.h"

namespace tessera {

// Adds --run, --checkpoint, --weights, --model, --set and --class-names.
void add_network_options(CLI::App& app, NetworkSource& source);

struct PredictOptions {
  NetworkSource network;
  std::string precision;
  std::vector<std::string> inputs;  // files, folders, or "-": paths on standard input
  int top = 5, batch = 1, threads = 0;
  bool json = false, csv = false;
};

void add_predict_options(CLI::App& app, PredictOptions& options);

// Writes to standard output. Reports files that are not pictures on standard error and continues;
// returns exit code 3 if there were any, else 0.
int predict(const PredictOptions& options);

}  // namespace tessera
