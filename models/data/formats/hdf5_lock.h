// What all that calls libhdf5 shares: its lock, and identifiers that close themselves. Its own
// header is not needed here.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace tessera {

// Holds the lock; libhdf5 prints nothing and loads no filter plug-in meanwhile.
class Hdf5Lock {
 public:
  Hdf5Lock();
  ~Hdf5Lock();
  Hdf5Lock(const Hdf5Lock&) = delete;
  Hdf5Lock& operator=(const Hdf5Lock&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  int (*print_)(int64_t, void*) = nullptr;
  void* print_data_ = nullptr;
  unsigned plugins_ = 0;
};

// A hid_t; closes what it stands for, whatever that is. To be used, and destroyed, in a turn.
class Hdf5Id {
 public:
  Hdf5Id() = default;
  explicit Hdf5Id(int64_t id) : id_(id) {}
  ~Hdf5Id();
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  operator int64_t() const { return id_; }

 private:
  int64_t id_ = -1;  // below 0: of nothing
};

// Runs `use` in a child process and returns whether that came to its end, in time and with or
// without an exception. A damaged file can end the process within libhdf5: what opens a file that
// is not vouched for is tried so first. Throws Error if there can be no child.
bool survives_hdf5(const std::function<void()>& use);

// The innermost message of the last call that failed.
std::string hdf5_library_error();

}  // namespace tessera
