#include "machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "protection.h"

namespace cuda_double {
namespace {

constexpr int kPatience = 64;  // queries of an event until something moves
constexpr size_t kMaxRecords = 1 << 20;

}  // namespace

void broken(const std::string& what) {
  std::fprintf(stderr, "cuda double: %s\n", what.c_str());
  std::abort();
}

Machine& Machine::get() {
  static auto* const machine = new Machine;  // never destroyed: contexts outlive main
  return *machine;
}

Machine::Machine() {
  const char* const text = std::getenv("TESSERA_DOUBLE");
  set_schedule(text == nullptr ? "eager" : text);
}

void Machine::set_schedule(const std::string& text) {
  finish();
  const std::string random = "random:";
  seed_ = 0;
  if (text == "eager") {
    schedule_ = Schedule::eager;
  } else if (text == "lazy") {
    schedule_ = Schedule::lazy;
  } else if (text.compare(0, random.size(), random) == 0) {
    schedule_ = Schedule::random;
    seed_ = std::strtoull(text.c_str() + random.size(), nullptr, 10) + 1;
    random_.seed(seed_);
  } else {
    broken("TESSERA_DOUBLE is '" + text + "'; write eager, lazy or random:SEED");
  }
}

uint64_t Machine::kernel_seed() { return seed_ == 0 ? 0 : seed_ * 0x9e3779b97f4a7c15u + ++grids_; }

size_t Machine::random_below(size_t end) {
  return schedule_ == Schedule::random ? random_() % end : 0;
}

cudaStream_t Machine::make_stream(int device) {
  streams_.push_back(new CUstream_st{device, ++streams_made_, {}, now, false, nullptr, {}});
  return streams_.back();
}

bool Machine::is_stream(cudaStream_t stream) const {
  return stream != nullptr &&
         std::find(streams_.begin(), streams_.end(), stream) != streams_.end() && !stream->ended;
}

long Machine::streams() const {
  return std::count_if(streams_.begin(), streams_.end(),
                       [](const CUstream_st* s) { return !s->ended; });
}

void Machine::end_stream(cudaStream_t stream) {
  stream->ended = true;
  if (!stream->queue.empty()) return;
  std::erase(streams_, stream);
  delete stream;
}

void Machine::enqueue(cudaStream_t stream, Operation operation) {
  operation.issued = now;
  stream->queue.push_back(std::move(operation));
  if (schedule_ == Schedule::eager) {
    wait_for(stream);
  } else if (schedule_ == Schedule::random) {
    for (uint64_t k = random_() % 4; k > 0 && !streams_.empty(); --k)
      step(*streams_[random_() % streams_.size()]);
  }
}

// Returns when an engine that is requested at `ready` can begin. The schedule runs operations out
// of order, so a later one may begin earlier. Very short ones do not wait for long ones.
double Machine::take_engine(Engine engine, double ready, double seconds) {
  constexpr size_t kRemembered = 256;
  constexpr double kShort = 1e-6;
  if (seconds < kShort) return ready;
  std::map<double, double>& busy = busy_[static_cast<int>(engine)];
  double start = ready;
  for (const auto& [begin, end] : busy) {
    if (start + seconds <= begin) break;
    start = std::max(start, end);
  }
  busy[start] = start + seconds;
  if (busy.size() > kRemembered) busy.erase(busy.begin());
  return start;
}

// Runs the first operation of a stream; returns false if there is none or it has to wait.
bool Machine::step(CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  Operation& front = stream.queue.front();
  if (front.waits && front.waits->happened < front.generation) return false;
  const Operation operation = std::move(front);
  stream.queue.pop_front();
  double start = std::max(stream.end, operation.issued);
  if (operation.waits) start = std::max(start, operation.waits->at);
  if (operation.engine != Engine::none)
    start = take_engine(operation.engine, start, operation.seconds);
  stream.end = start + operation.seconds;
  if (operation.engine != Engine::none) {
    if (records.size() < kMaxRecords)
      records.push_back({operation.name, stream.number, start, stream.end});
  }
  if (operation.run && sticky == cudaSuccess) {
    OpenMemory open;
    operation.run();
  }
  if (operation.records) {
    operation.records->happened = std::max(operation.records->happened, operation.generation);
    operation.records->at = stream.end;
  }
  if (stream.ended && stream.queue.empty()) {
    std::erase(streams_, &stream);
    delete &stream;
  }
  return true;
}

// Runs an operation of a stream, or of the one whose event it waits for.
bool Machine::advance(CUstream_st& stream, int depth) {
  if (step(stream)) return true;
  if (stream.queue.empty() || depth > 100) return false;
  CUstream_st* const other = stream.queue.front().waits->stream;
  if (other == nullptr || other == &stream ||
      std::find(streams_.begin(), streams_.end(), other) == streams_.end())
    return false;
  return advance(*other, depth + 1);
}

template <class Done>
void Machine::drive(Done done, CUstream_st* first) {
  OpenMemory open;  // once for all operations
  while (!done()) {
    bool moved = false;
    if (schedule_ == Schedule::random && !streams_.empty())
      moved = step(*streams_[random_() % streams_.size()]);
    if (!moved && first != nullptr) moved = advance(*first, 0);
    for (size_t i = 0; !moved && i < streams_.size(); ++i) moved = advance(*streams_[i], 0);
    if (!moved) broken("the host waits for work that can never be done");
  }
}

void Machine::finish() {
  const auto idle = [&] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const CUstream_st* s) { return s->queue.empty(); });
  };
  drive(idle, nullptr);
}

void Machine::wait_for(cudaStream_t stream) {
  drive([&] { return stream->queue.empty(); }, stream);
}

void Machine::wait_for(EventState& event) {
  const uint64_t generation = event.recorded;
  CUstream_st* const stream =
      std::find(streams_.begin(), streams_.end(), event.stream) == streams_.end() ? nullptr
                                                                                  : event.stream;
  drive([&] { return event.happened >= generation; }, stream);
}

void Machine::wait_for_device(int device) {
  const auto idle = [&] {
    return std::all_of(streams_.begin(), streams_.end(), [&](const CUstream_st* s) {
      return s->device != device || s->queue.empty();
    });
  };
  drive(idle, nullptr);
  for (const CUstream_st* s : streams_)
    if (s->device == device) now = std::max(now, s->end);
}

void Machine::asked(EventState& event) {
  if (schedule_ == Schedule::random && !streams_.empty())
    step(*streams_[random_() % streams_.size()]);
  if (++questions_ % kPatience != 0) return;
  if (event.stream == nullptr || !advance(*event.stream, 0))
    for (CUstream_st* s : std::vector(streams_))
      if (advance(*s, 0)) break;
}

}  // namespace cuda_double
