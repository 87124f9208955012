// ScratchLayout: cuts scratch into 64-byte aligned parts. On nullptr it only counts, so one
// function computes both the size of a kernel's scratch and the pointers into it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

class ScratchLayout {
 public:
  explicit ScratchLayout(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(int64_t count) {
    size_t at = size_;
    size_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return base_ ? reinterpret_cast<T*>(base_ + at) : nullptr;
  }
  size_t size() const { return size_; }
  // Returns the address after all parts taken.
  void* rest() const { return base_ + size_; }

 private:
  char* base_;
  size_t size_ = 0;
};

}  // namespace tessera
