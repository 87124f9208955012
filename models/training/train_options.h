// How a training is started, beside what it trains.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace tessera {

class FileSystem;

using Print = std::function<void(const std::string& line)>;

struct TrainOptions {
  // "": from the start; "auto": from the newest good checkpoint of the run folder, from the start
  // where there is none; else a run folder or a checkpoint file.
  std::string resume = {};
  bool overwrite = false;  // begin anew in a run folder that holds a training: its files go
  // When it is not 0 (a signal's number, say), the step in hand is finished, a checkpoint written
  // and training returns. Looked at between steps and between batches of an evaluation.
  const std::atomic<int>* stop = nullptr;
  // When it is true, a checkpoint is written after the step in hand, and it is false again.
  std::atomic<bool>* save = nullptr;
  std::string command = {};     // for command.txt of the run folder; "": none
  bool quiet = false;           // no progress bar; what is printed is for Print to leave out
  FileSystem* files = nullptr;  // for checkpoints, metrics, report; nullptr: the machine's
};

}  // namespace tessera
