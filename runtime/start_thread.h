// start_thread(): starts a thread and turns a refusal of the system into a DeviceError.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace tessera {

// Throws DeviceError: "threads: the system has none left for the loader (...); lower data.workers,
// or raise the limit of the user or the container (ulimit -u)".
[[noreturn]] void refuse_thread(const char* purpose, const char* remedy,
                                const std::system_error& error);

template <class F>
std::thread start_thread(const char* purpose, const char* remedy, F&& run) {
  try {
    return std::thread(std::forward<F>(run));
  } catch (const std::system_error& error) {
    refuse_thread(purpose, remedy, error);
  }
}

}  // namespace tessera
