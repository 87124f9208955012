#include "tessera/models/data/formats/hdf5_lock.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

static_assert(sizeof(hid_t) == sizeof(int64_t), "HDF5 1.10 or newer is needed");

// Never destroyed: destructors of static objects may close files.
std::mutex& library_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLget_loading_state(&plugins_);
  H5PLset_loading_state(0);
}
Hdf5Lock::~Hdf5Lock() {
  H5PLset_loading_state(plugins_);
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
}

Hdf5Id::~Hdf5Id() {
  if (id_ >= 0) H5Idec_ref(id_);
}

bool survives_hdf5(const std::function<void()>& use) {
  constexpr unsigned kSeconds = 60;
  const pid_t child = [] {
    const Hdf5Lock turn;  // no other thread holds it, so the child can lock it
    return ::fork();
  }();
  if (child < 0)
    throw Error(
        fmt::format("cannot start a child process that checks the file: {}", std::strerror(errno)));
  if (child == 0) {
    const rlimit none = {0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::close(STDERR_FILENO);  // hides messages of the C library in a crash
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(kSeconds);
    try {
      use();
    } catch (...) {
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string hdf5_library_error() {
  const auto first = [](unsigned, const H5E_error2_t* error, void* text) -> herr_t {
    auto& to = *static_cast<std::string*>(text);
    if (to.empty() && error->desc != nullptr) to = utf8_printable(error->desc);
    return 0;
  };
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &text);
  if (text.find("version") != text.npos)
    text += "; if a newer version than " H5_VERS_INFO
            " wrote the file, convert it with the h5repack of that version: `h5repack --low=0 "
            "--high=1 FILE NEW`";
  return text.empty() ? "libhdf5 failed without a message" : text;
}

}  // namespace tessera
