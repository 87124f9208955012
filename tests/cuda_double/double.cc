#include "double.h"

#include <algorithm>
#include <mutex>

#include "captures.h"
#include "failures.h"
#include "machine.h"
#include "memory.h"
#include "protection.h"

using namespace cuda_double;

extern "C" {

void cuda_double_schedule(const char* text) {
  std::lock_guard lock(Machine::get().mutex);
  Machine::get().set_schedule(text);
}

void cuda_double_fail(const char* text) {
  Machine& machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  machine.finish();  // after a failure, work is dropped, not run
  machine.sticky = cudaSuccess;
  plant(text);
}

const char* cuda_double_failed_call() {
  std::lock_guard lock(Machine::get().mutex);
  return failed_call().c_str();
}

cuda_double_counts cuda_double_counts_now() {
  std::lock_guard lock(Machine::get().mutex);
  return Machine::get().counters;
}

cuda_double_held cuda_double_held_now() {
  Machine& machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  cuda_double_held held{
      0, pinned_bytes(), machine.streams(), machine.events, machine.graphs, captures_begun()};
  for (int device = 0; device < device_count(); ++device) held.device_bytes += used_bytes(device);
  return held;
}

const char* cuda_double_kernel() { return Machine::get().kernel.c_str(); }

int cuda_double_protect(int on) {
  std::lock_guard lock(Machine::get().mutex);
  return protect(on != 0);
}

long cuda_double_list_done(cuda_double_done* to, long most) {
  std::lock_guard lock(Machine::get().mutex);
  const auto& records = Machine::get().records;
  const auto count = static_cast<long>(records.size());
  for (long i = 0; i < std::min(count, most); ++i) {
    const Record& record = records[static_cast<size_t>(i)];
    to[i] = {record.name.c_str(), record.stream, record.start, record.end};
  }
  return count;
}

void cuda_double_forget_done() {
  std::lock_guard lock(Machine::get().mutex);
  Machine::get().records.clear();
}

double cuda_double_now() {
  std::lock_guard lock(Machine::get().mutex);
  return Machine::get().now;
}

void cuda_double_pass(double seconds) {
  std::lock_guard lock(Machine::get().mutex);
  Machine::get().now += seconds;
}
}
