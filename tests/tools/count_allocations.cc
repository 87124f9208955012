// A library for LD_PRELOAD that counts the memory requests of a whole process, with all its
// threads: malloc, calloc, realloc, free, the aligned ones, mmap, mremap and munmap. operator new
// and delete count as the malloc and free that they call.
//
// The program marks its steps with tessera_step_begin() and tessera_step_end() (runs_ahead.h). At
// exit, the file that TESSERA_ALLOCATIONS names gets a line of counts, and a line for each request
// of 64 KiB or more since the process began:
//
//   steps=50 inside=0 between=0
//   request 72704 before main
//   request 153600000 step 0
//
// inside: calls during a step; between: calls after one step and before the next. The first step is
// not counted, as the C++ library and the thread pool may still make buffers. "step" of a request:
// the number of steps that had ended; "before main": made by libraries that the system loads before
// the program. TESSERA_ALLOCATIONS_ABORT=1 aborts at the first call inside a step, so that a
// debugger shows it.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// glibc's own functions under names that are not replaced here.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);
}

namespace {

constexpr size_t kLarge = size_t{1} << 16, kMaxRecords = size_t{1} << 16;

struct Request {
  size_t bytes;
  uint64_t step;
  bool in_main;
};

std::atomic<uint64_t> g_calls, g_records, g_steps;
std::atomic<bool> g_abort, g_in_main;
Request g_requests[kMaxRecords];

uint64_t g_inside, g_between, g_mark;  // counted by the thread that runs the steps

void count() {
  g_calls.fetch_add(1, std::memory_order_relaxed);
  if (g_abort.load(std::memory_order_relaxed)) std::abort();
}

void count_request(size_t bytes) {
  count();
  if (bytes < kLarge) return;
  uint64_t at = g_records.fetch_add(1, std::memory_order_relaxed);
  if (at >= kMaxRecords) std::abort();  // a truncated list would prove nothing
  g_requests[at] = {bytes, g_steps.load(std::memory_order_relaxed), g_in_main};
}

// Returns the number of calls since the last lap().
uint64_t lap() {
  uint64_t now = g_calls.load(), before = g_mark;
  g_mark = now;
  return now - before;
}

using Main = int(int, char**, char**);
using Number = unsigned long long;  // for printf

__attribute__((destructor)) void report() {
  g_abort = false;
  const char* path = std::getenv("TESSERA_ALLOCATIONS");
  if (path == nullptr) return;
  const uint64_t records = g_records.load();
  if (std::FILE* file = std::fopen(path, "w")) {
    std::fprintf(file, "steps=%llu inside=%llu between=%llu\n", Number{g_steps.load()},
                 Number{g_inside}, Number{g_between});
    for (uint64_t i = 0; i < records; ++i) {
      const Request& request = g_requests[i];
      std::fprintf(file, "request %llu ", Number{request.bytes});
      if (request.in_main) std::fprintf(file, "step %llu\n", Number{request.step});
      if (!request.in_main) std::fprintf(file, "before main\n");
    }
    std::fclose(file);
  }
}

}  // namespace

extern "C" {

void tessera_step_begin() {
  if (g_steps == 0) return;
  g_between += lap();
  g_abort = std::getenv("TESSERA_ALLOCATIONS_ABORT") != nullptr;
}

void tessera_step_end() {
  g_abort = false;
  const uint64_t calls = lap();
  if (g_steps++ > 0) g_inside += calls;
}

// The C library's entry into a program; its constructors and main() run later.
int __libc_start_main(Main* main, int count, char** words, void (*init)(), void (*fini)(),
                      void (*loader_fini)(), void* stack_end) {
  auto* start = reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, __func__));
  g_in_main = true;
  return start(main, count, words, init, fini, loader_fini, stack_end);
}

void* malloc(size_t bytes) {
  count_request(bytes);
  return __libc_malloc(bytes);
}

void* calloc(size_t n, size_t bytes) {
  count_request(n * bytes);
  return __libc_calloc(n, bytes);
}

void* realloc(void* block, size_t bytes) {
  count_request(bytes);
  return __libc_realloc(block, bytes);
}

void free(void* block) {
  if (block != nullptr) count();
  __libc_free(block);
}

void* memalign(size_t alignment, size_t bytes) {
  count_request(bytes);
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  void* made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  count_request(bytes);
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}

void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off64_t offset) {
  return mmap(at, bytes, protection, flags, file, offset);
}

void* mremap(void* block, size_t old_bytes, size_t bytes, int flags, ...) {
  count_request(bytes);
  if ((flags & MREMAP_FIXED) != 0) std::abort();  // not used here
  return reinterpret_cast<void*>(syscall(SYS_mremap, block, old_bytes, bytes, flags));
}

int munmap(void* block, size_t bytes) {
  count();
  return static_cast<int>(syscall(SYS_munmap, block, bytes));
}

}  // extern "C"
