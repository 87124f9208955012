// Agreements of the processes of a shared training (runtime/exchange/) outside its steps.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tessera/models/training/run.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/exchange/exchange.h"

namespace tessera {

// Thrown in every process alike, so one of them reports it.
class CommonError : public ConfigError {
  using ConfigError::ConfigError;
};

// Throws CommonError if so many processes cannot share the training.
void require_shareable(const Run& run);
// Throws CommonError if the processes differ in the configuration, the data, the program or the
// processor. Requires that the data are open.
void compare_processes(const Run& run);

// Returns the text of the process with rank 0, in every process.
std::string text_of_leader(Exchange& exchange, const std::string& own);

// Returns a line that names the processes of a training, their computers and threads.
std::string processes_line(const Run& run);

// The signal that stops a training, on which all processes agree: it is asked for before each step
// and answered before the next one, so that no step waits.
class SharedStop {
 public:
  SharedStop(std::shared_ptr<Exchange> exchange, const std::atomic<int>* stop);
  ~SharedStop();  // after the last step of all processes, or after an error of this one

  // Agrees with the other processes; each calls it once before each step.
  void before_step();
  // Returns 0 or a signal: alone, that of this process now; shared, one that a process had received
  // at the previous before_step(), the same in every process.
  int signal() const { return exchange_ ? agreed_ : own(); }

 private:
  int own() const { return stop_ != nullptr ? stop_->load() : 0; }

  const std::shared_ptr<Exchange> exchange_;
  const std::atomic<int>* const stop_;
  std::unique_ptr<SpreadJob> asked_;
  bool waits_ = false;
  int agreed_ = 0;
  float mine_ = 0;
  std::vector<float> others_;
  const AbandonOnError abandon_;  // the last: destroyed before the memory of a message
};

}  // namespace tessera
