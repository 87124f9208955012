// A library for LD_PRELOAD that reports the progress of a checkpoint to another process, through a
// file that both map: from the opening of the temporary file to the end of pruning. It also
// prolongs this time: before each of its calls of the operating system the trainer sleeps up to
// TESSERA_WINDOW_DELAY microseconds. The file that TESSERA_WINDOW names has two int32: the phase, 0
// outside, and the number of checkpoints begun.
//
//   1 the temporary file is open    2 it is renamed    3 `best` was moved    4 `latest` was moved
//   5 the folder is synchronised after that; pruning begins or there is nothing to prune
//   6 an old checkpoint is being removed; 0 afterwards
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct Window {
  volatile int32_t phase, begun;
};

Window* window() {
  static Window* const shared = [] {
    static Window none{};
    const char* path = std::getenv("TESSERA_WINDOW");
    // open() would call the replacement below.
    const int file =
        path == nullptr ? -1
                        : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
    void* page = file < 0
                     ? MAP_FAILED
                     : mmap(nullptr, sizeof(Window), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return page == MAP_FAILED ? &none : static_cast<Window*>(page);
  }();
  return shared;
}

void delay() {
  static const char* const text = std::getenv("TESSERA_WINDOW_DELAY");
  static std::minstd_rand random(static_cast<unsigned>(getpid()));
  if (text != nullptr && window()->phase != 0)
    usleep(static_cast<useconds_t>(random() % (std::strtoul(text, nullptr, 10) + 1)));
}

bool ends_with(const char* text, const char* end) {
  const size_t length = std::strlen(text), tail = std::strlen(end);
  return length >= tail && std::strcmp(text + length - tail, end) == 0;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  // The mode is only passed with O_CREAT.
  __builtin_va_list more;
  __builtin_va_start(more, flags);
  const int mode = (flags & O_CREAT) != 0 ? __builtin_va_arg(more, int) : 0;
  __builtin_va_end(more);
  const bool begins =
      std::strstr(path, "/step-") != nullptr && ends_with(path, ".safetensors.partial");
  if (begins) {
    window()->begun = window()->begun + 1;
    window()->phase = 1;
  }
  delay();
  return real(path, flags, mode);
}

ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  delay();
  // Writes half, so that a kill may fall into the middle of a file.
  const bool part = window()->phase != 0 && count > 4096;
  return real(file, bytes, part ? count / 2 : count);
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  delay();
  const int result = real(file);
  if (window()->phase == 4) window()->phase = 5;  // the folder's, after `latest`
  return result;
}

int rename(const char* from, const char* to) {
  static auto* const real = next<int(const char*, const char*)>("rename");
  delay();
  const int result = real(from, to);
  if (window()->phase != 0) {
    window()->phase = ends_with(to, "/latest") ? 4 : ends_with(to, "/best") ? 3 : 2;
    delay();
  }
  return result;
}

int unlink(const char* path) {
  static auto* const real = next<int(const char*)>("unlink");
  const bool prunes = window()->phase == 5 && ends_with(path, ".safetensors");
  if (prunes) window()->phase = 6;
  delay();
  const int result = real(path);
  if (prunes) window()->phase = 0;
  return result;
}

}  // extern "C"
