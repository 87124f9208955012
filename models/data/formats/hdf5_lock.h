// Hdf5Lock, the lock of libhdf5, and Hdf5Id, an identifier that closes itself. Does not include the
// header of libhdf5.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace tessera {

// Holds the lock. Meanwhile libhdf5 prints nothing and loads no filter plug-in.
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

// A hid_t that closes its object, of any kind. Use and destroy it under an Hdf5Lock.
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
  int64_t id_ = -1;  // below 0: empty
};

// Runs `use` in a child process and returns true if it ends in time, with or without an exception.
// Untrusted files are first opened this way, because a damaged file can crash the process in
// libhdf5. Throws Error if no child can be created.
bool survives_hdf5(const std::function<void()>& use);

// Returns the innermost message of the last call that failed.
std::string hdf5_library_error();

}  // namespace tessera
