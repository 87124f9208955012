// Counts the requests to operator new. It replaces the operators of the whole program, so only one
// file of a program may include it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

inline std::atomic<int64_t> counted_news = 0;      // calls, by any thread
inline thread_local size_t counted_new_bytes = 0;  // requested by this thread

// Never inlined: the compiler would see a free() where it expects a delete.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++counted_news;
  counted_new_bytes += size;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  std::free(block);
}
