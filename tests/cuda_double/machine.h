// The simulated machine: streams, events and graphs in one discrete-event simulation. Nothing runs
// beside the caller: work is done when the schedule says so, TESSERA_DOUBLE=
//   eager        at once
//   lazy         when somebody waits for it, and then no more than that takes
//   random:SEED  now and then, streams by turns, as the seed has it
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "double.h"
#include <cuda_runtime_api.h>

struct CUstream_st;
struct CUgraph_st;

namespace cuda_double {

// A use that has no meaning on the machine: says so and stops the process.
[[noreturn]] void broken(const std::string& what);

// What an event handle stands for; outlives it while work refers to it.
struct EventState {
  uint64_t recorded = 0, happened = 0;  // how often
  double at = 0;                        // of the last that happened
  CUstream_st* stream = nullptr;        // of the last record
  std::vector<size_t> nodes;            // of the last record, where that was captured
  uint64_t capture = 0;                 // the number of that graph
};

enum class Engine { none, compute, in, out };  // what work keeps busy
constexpr int kEngines = 4;

struct Operation {
  std::string name;
  Engine engine = Engine::none;
  double seconds = 0;
  std::function<void()> run;                   // may be empty
  std::shared_ptr<EventState> records, waits;  // at most one of them
  uint64_t generation = 0;                     // of that event
  double issued = 0;
};

struct Record {
  std::string name;
  int stream;
  double start, end;
};

enum class Schedule { eager, lazy, random };

class Machine {
 public:
  static Machine& get();
  std::recursive_mutex mutex;  // held by whoever calls the runtime

  void set_schedule(const std::string& text);  // what was issued is done first
  void finish();                               // does all that was issued
  uint64_t kernel_seed();                      // for the next grid
  size_t random_below(size_t end);             // 0 where the schedule is not random

  cudaStream_t make_stream(int device);
  bool is_stream(cudaStream_t stream) const;
  long streams() const;
  void end_stream(cudaStream_t stream);  // what is on it is still done
  // On the stream, or into the graph that captures it.
  void enqueue(cudaStream_t stream, Operation operation);
  void wait_for(cudaStream_t stream);
  void wait_for(EventState& event);
  void wait_for_device(int device);
  void asked(EventState& event);  // a query that found it not yet done

  double now = 0;  // of the host, in simulated seconds
  cuda_double_counts counters{};
  std::vector<Record> records;
  std::string kernel;           // that runs now
  long events = 0, graphs = 0;  // that there are
  cudaError_t sticky = cudaSuccess;

 private:
  Machine();
  bool step(CUstream_st& stream);
  double take_engine(Engine engine, double ready, double seconds);
  template <class Done>
  void drive(Done done, CUstream_st* first);
  bool advance(CUstream_st& stream, int depth);

  Schedule schedule_ = Schedule::eager;
  uint64_t seed_ = 0, grids_ = 0;
  std::mt19937_64 random_;
  std::vector<CUstream_st*> streams_;
  std::map<double, double> busy_[kEngines];  // from when to when, the latest of each engine
  int streams_made_ = 0, questions_ = 0;
};

}  // namespace cuda_double

struct CUgraph_st {
  struct Node {
    cuda_double::Operation operation;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
  // While it is captured:
  uint64_t number = 0;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;
  std::thread::id thread;
  bool invalid = false;
};

struct CUgraphExec_st {
  std::vector<CUgraph_st::Node> nodes;
};

struct CUstream_st {
  int device, number;
  std::deque<cuda_double::Operation> queue;
  double end = 0;  // of what has been done
  bool ended = false;
  CUgraph_st* capture = nullptr;
  std::vector<size_t> tips;  // of the capture: what the next node comes after
};

struct CUevent_st {
  std::shared_ptr<cuda_double::EventState> state;
};
