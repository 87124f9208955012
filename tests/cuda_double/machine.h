// The simulated machine: streams, events and graphs in one discrete-event simulation. Nothing runs
// in parallel to the caller: work is done when the schedule says so, TESSERA_DOUBLE=
//   eager        at once
//   lazy         when a caller waits for it, and no more than needed
//   random:SEED  now and then, in streams drawn by the seed
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

// Reports an invalid use and aborts.
[[noreturn]] void broken(const std::string& what);

// The state of an event handle; outlives the handle while work refers to it.
struct EventState {
  uint64_t recorded = 0, happened = 0;  // number of times
  double at = 0;                        // time when it last happened
  CUstream_st* stream = nullptr;        // stream of the last record
  std::vector<size_t> nodes;            // captured nodes of the last record
  uint64_t capture = 0;                 // the number of that graph
};

enum class Engine { none, compute, in, out };  // the unit that work occupies
constexpr int kEngines = 4;

struct Operation {
  std::string name;
  Engine engine = Engine::none;
  double seconds = 0;
  std::function<void()> run;                   // may be empty
  std::shared_ptr<EventState> records, waits;  // at most one of them
  uint64_t generation = 0;                     // generation of that event
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
  std::recursive_mutex mutex;  // held by callers of the runtime

  void set_schedule(const std::string& text);  // runs issued work first
  void finish();                               // runs all issued work
  uint64_t kernel_seed();                      // for the next grid
  size_t random_below(size_t end);             // 0 unless the schedule is random

  cudaStream_t make_stream(int device);
  bool is_stream(cudaStream_t stream) const;
  long streams() const;
  void end_stream(cudaStream_t stream);  // its work is still done
  // Adds to the stream, or to the graph that captures it.
  void enqueue(cudaStream_t stream, Operation operation);
  void wait_for(cudaStream_t stream);
  void wait_for(EventState& event);
  void wait_for_device(int device);
  void asked(EventState& event);  // after a query that found it pending

  double now = 0;  // host time, in simulated seconds
  cuda_double_counts counters{};
  std::vector<Record> records;
  std::string kernel;           // the running one
  long events = 0, graphs = 0;  // existing ones
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
  std::map<double, double> busy_[kEngines];  // intervals, the latest of each engine
  int streams_made_ = 0, questions_ = 0;
};

}  // namespace cuda_double

struct CUgraph_st {
  struct Node {
    cuda_double::Operation operation;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
  // During capture:
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
  double end = 0;  // when the work done so far ends
  bool ended = false;
  CUgraph_st* capture = nullptr;
  std::vector<size_t> tips;  // the nodes that the next captured node follows
};

struct CUevent_st {
  std::shared_ptr<cuda_double::EventState> state;
};
