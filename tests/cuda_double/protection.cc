#include "protection.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace cuda_double {
namespace {

struct Protection {
  char *begin = nullptr, *used = nullptr;
  size_t bytes = 0;
  bool asked = false, on = false;
  int key = -1;  // -1: not supported
  int open = 0;
  struct sigaction before {};
} all;

// Sets the current access rights.
void apply() {
  const bool closed = all.on && all.open == 0;
  if (all.key >= 0) {
    pkey_set(all.key, closed ? PKEY_DISABLE_ACCESS : 0);
  } else if (all.used > all.begin) {
    mprotect(all.begin, static_cast<size_t>(all.used - all.begin),
             closed ? PROT_NONE : PROT_READ | PROT_WRITE);
  }
}

void on_fault(int signal, siginfo_t* about, void*) {
  const auto* const at = static_cast<char*>(about->si_addr);
  if (at >= all.begin && at < all.begin + all.bytes) {
    constexpr char kText[] = "cuda double: host access to device memory\n";
    const ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
    (void)written;
  }
  sigaction(signal, &all.before, nullptr);  // the fault is raised again, for the previous handler
}

}  // namespace

void set_device_memory(char* begin, size_t bytes) {
  all.begin = all.used = begin;
  all.bytes = bytes;
  all.key = pkey_alloc(0, 0);
  if (all.key >= 0) pkey_mprotect(begin, bytes, PROT_READ | PROT_WRITE, all.key);
  const char* const wanted = std::getenv("TESSERA_DOUBLE_PROTECT");
  if (!all.asked) protect(wanted != nullptr ? std::strcmp(wanted, "0") != 0 : all.key >= 0);
  apply();
}

void set_used(char* end) {
  const long page = sysconf(_SC_PAGESIZE);
  const auto pages = (end - all.begin + page - 1) / page * page;
  char* const used = all.begin + std::min(pages, static_cast<ptrdiff_t>(all.bytes));
  const bool more = used > all.used;
  all.used = used;  // memory behind it keeps its rights until it is used again
  if (more) apply();
}

bool protect(bool on) {
  all.asked = true;
  const bool before = all.on;
  if (on == before) return before;
  struct sigaction handler {};
  handler.sa_sigaction = &on_fault;
  handler.sa_flags = SA_SIGINFO;
  if (on)
    sigaction(SIGSEGV, &handler, &all.before);
  else
    sigaction(SIGSEGV, &all.before, nullptr);
  all.on = on;
  apply();
  return before;
}

OpenMemory::OpenMemory() {
  if (all.open++ == 0 && all.on) apply();
}

OpenMemory::~OpenMemory() {
  if (--all.open == 0 && all.on) apply();
}

}  // namespace cuda_double
