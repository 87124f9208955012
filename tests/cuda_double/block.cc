#include "block.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "machine.h"
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_double {

int thread_index = 0;

namespace {

#if defined(__x86_64__)
// Saves callee-saved registers on the old stack, and restores them from the new one.
extern "C" void cuda_double_switch(void** from, void* to);
asm(R"(.text
.globl cuda_double_switch
.type cuda_double_switch, @function
cuda_double_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_double_switch, .-cuda_double_switch
)");
#endif

constexpr size_t kStack = size_t{256} << 10, kGuard = 4096;
// Tops of stacks are apart, so that they do not compete for the same cache lines.
constexpr size_t kTops = 8192, kApart = 448;

// A stack, and its saved position.
struct Stack {
  const char* bottom = nullptr;
  size_t bytes = 0;
#if defined(__x86_64__)
  void* context = nullptr;
  void begin(char* memory, size_t size, void (*main)()) {
    bottom = memory;
    bytes = size;
    void** top = reinterpret_cast<void**>(memory + size) - 2;
    *top = reinterpret_cast<void*>(main);
    context = top - 6;
  }
  static void jump(Stack& from, Stack& to) { cuda_double_switch(&from.context, to.context); }
#else
  ucontext_t context;
  void begin(char* memory, size_t size, void (*main)()) {
    bottom = memory;
    bytes = size;
    getcontext(&context);
    context.uc_stack.ss_sp = memory;
    context.uc_stack.ss_size = size;
    makecontext(&context, main, 0);
  }
  static void jump(Stack& from, Stack& to) { swapcontext(&from.context, &to.context); }
#endif

#if defined(__SANITIZE_ADDRESS__)  // AddressSanitizer must follow every change
  void* fake = nullptr;
  static void change(Stack& from, Stack& to) {
    __sanitizer_start_switch_fiber(&from.fake, to.bottom, to.bytes);
    jump(from, to);
    arrived(from);
  }
  static void arrived(Stack& here) { __sanitizer_finish_switch_fiber(here.fake, nullptr, nullptr); }
  // Describes the stack of the calling thread.
  void describe() {
    pthread_attr_t about;
    pthread_getattr_np(pthread_self(), &about);
    void* begin = nullptr;
    pthread_attr_getstack(&about, &begin, &bytes);
    bottom = static_cast<char*>(begin);
    pthread_attr_destroy(&about);
  }
#else
  static void change(Stack& from, Stack& to) { jump(from, to); }
  static void arrived(Stack&) {}
  void describe() {}
#endif
};

struct Fiber {
  Stack stack;
  uint3 thread{};
  int index = 0;          // index of the thread within the block
  void* value = nullptr;  // given to an exchange; `from` is the lane that it reads
  int from = 0;
};

// Lanes of a warp that have arrived at an exchange.
struct Gathering {
  unsigned mask = 0, arrived = 0;
  size_t bytes = 0;
  Site site{};
};

struct Warp {
  Fiber* lanes[32] = {};
  unsigned ended = 0;
  std::vector<Gathering> gatherings;  // disjoint masks; nearly always one or none
};

struct Block {
  const std::function<void()>* thread = nullptr;
  dim3 size;
  int threads = 0, started = 0, ended = 0;
  int next = 0, stride = 1;  // the next thread is `stride` further, modulo `threads`
  bool ahead = false;        // a warp runs as far as it can before another continues
  std::vector<Warp> warps;
  std::vector<Fiber*> idle, ready, waiting;  // waiting at __syncthreads
  size_t next_ready = 0;
  Site barrier{};
  Fiber* current = nullptr;
  Stack outside;
  unsigned char* shared = nullptr;
  size_t shared_bytes = 0;
};
Block& block = *new Block;  // never destroyed: its fibers stay reachable

std::string text(Site site) { return std::string(site.file) + ":" + std::to_string(site.line); }

void place(Fiber& fiber, int index) {
  const unsigned i = static_cast<unsigned>(index), x = block.size.x, y = block.size.y;
  fiber.index = index;
  fiber.thread = i < x ? uint3{i, 0, 0} : uint3{i % x, i / x % y, i / (x * y)};
}

void take_over(Fiber& fiber) {
  block.current = &fiber;
  threadIdx = fiber.thread;
  thread_index = fiber.index;
}

int next_thread() {
  const int thread = block.next;
  ++block.started;
  block.next += block.stride;
  if (block.next >= block.threads) block.next -= block.threads;
  return thread;
}

void change_to(Stack& from, Fiber& to) {
  take_over(to);
  Stack::change(from, to.stack);
}

void fiber_main();

Fiber* idle_fiber() {
  if (!block.idle.empty()) {
    Fiber* fiber = block.idle.back();
    block.idle.pop_back();
    return fiber;
  }
  auto* memory = static_cast<char*>(mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) broken("no memory for the stack of a thread");
  mprotect(memory, kGuard, PROT_NONE);
  auto* fiber = new Fiber;  // kept for later blocks
  static size_t made = 0;
  fiber->stack.begin(memory + kGuard, kStack - made++ * kApart % kTops, &fiber_main);
  return fiber;
}

// Returns the fiber that runs while the caller waits: a ready one, else one for a new thread.
Fiber* next_fiber() {
  if (block.ahead && !block.ready.empty()) {
    Fiber* fiber = block.ready.back();
    block.ready.pop_back();
    return fiber;
  }
  if (block.next_ready < block.ready.size()) {
    Fiber* fiber = block.ready[block.next_ready++];
    if (block.next_ready == block.ready.size()) {
      block.ready.clear();
      block.next_ready = 0;
    }
    return fiber;
  }
  if (block.started < block.threads) {
    Fiber* fiber = idle_fiber();
    place(*fiber, next_thread());
    return fiber;
  }
  if (!block.waiting.empty() && block.ended > 0)
    broken("threads wait at the __syncthreads of " + text(block.barrier) +
           ", others of their block have ended");
  for (const Warp& warp : block.warps)
    for (const Gathering& g : warp.gatherings)
      broken("lanes wait for others of their warp at " + text(g.site) + ", which never come there");
  broken("a block hangs");
}

void pause() {
  Fiber* self = block.current;
  change_to(self->stack, *next_fiber());
}

// Runs threads one after the other until one of them waits; then other fibers continue.
void fiber_main() {
  Stack::arrived(block.current->stack);
  for (;;) {
    Fiber* self = block.current;
    (*block.thread)();
    ++block.ended;
    block.warps[static_cast<size_t>(self->index) / 32].ended |= 1u << self->index % 32;
    if (block.started < block.threads) {
      place(*self, next_thread());
      take_over(*self);
      continue;
    }
    block.idle.push_back(self);
    if (block.ended == block.threads) {
      Stack::change(self->stack, block.outside);
    } else {
      change_to(self->stack, *next_fiber());
    }
  }
}

uint64_t mixed(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void run_block(uint64_t seed) {
  block.next = 0;
  block.stride = 1;
  const auto threads = static_cast<uint64_t>(block.threads);
  const uint64_t random = mixed(seed);
  block.ahead = seed != 0 && random >> 63 != 0;
  if (block.ahead) {
    block.next = static_cast<int>(random % block.warps.size()) * 32;
  } else if (seed != 0) {
    block.next = static_cast<int>(random % threads);
    block.stride = 1 + static_cast<int>((random >> 32) % threads);
    while (std::gcd(block.stride, block.threads) != 1)
      block.stride = block.stride % block.threads + 1;
  }
  block.started = block.ended = 0;
  for (Warp& warp : block.warps) warp.ended = 0;
  if (block.shared_bytes > 0) std::memset(block.shared, 0xff, block.shared_bytes);
  Fiber* fiber = idle_fiber();
  place(*fiber, next_thread());
  change_to(block.outside, *fiber);
}

}  // namespace

void wait_for_block(Site site) {
  if (block.ended > 0)
    broken("a thread comes to the __syncthreads of " + text(site) +
           ", others of its block have ended");
  if (block.waiting.empty()) block.barrier = site;
  if (!(block.barrier == site))
    broken("threads of a block wait at different __syncthreads: " + text(block.barrier) + " and " +
           text(site));
  block.waiting.push_back(block.current);
  if (block.waiting.size() < static_cast<size_t>(block.threads)) return pause();
  block.waiting.pop_back();  // the last to arrive continues at once
  block.ready.insert(block.ready.end(), block.waiting.begin(), block.waiting.end());
  block.waiting.clear();
}

namespace {

// Copies. The usual sizes are constants, which saves a call for each lane.
void move(void* to, const void* from, size_t bytes) {
  if (bytes == 4)
    std::memcpy(to, from, 4);
  else if (bytes == 8)
    std::memcpy(to, from, 8);
  else
    std::memcpy(to, from, bytes);
}

void deliver(Warp& warp, const Gathering& all) {
  unsigned char given[32][kLargestExchange];
  for (int l = 0; l < 32; ++l)
    if (all.arrived >> l & 1 && all.bytes > 0) move(given[l], warp.lanes[l]->value, all.bytes);
  for (int l = 0; l < 32; ++l) {
    if ((all.arrived >> l & 1) == 0) continue;
    Fiber& fiber = *warp.lanes[l];
    if (all.bytes > 0) {
      if (all.arrived >> fiber.from & 1)
        move(fiber.value, given[fiber.from], all.bytes);
      else  // a lane that takes no part gives an undefined value
        std::memset(fiber.value, 0xff, all.bytes);
    }
    if (&fiber != block.current) block.ready.push_back(&fiber);
  }
}

}  // namespace

void exchange(unsigned mask, void* value, size_t bytes, int from, Site site) {
  Fiber& self = *block.current;
  Warp& warp = block.warps[static_cast<size_t>(self.index) / 32];
  const unsigned bit = 1u << lane();
  if ((mask & bit) == 0)
    broken("a lane calls a function of its warp with a mask that leaves it out: " + text(site));
  if (mask & warp.ended) broken("lanes named in the mask have ended: " + text(site));
  self.value = value;
  self.from = from;
  warp.lanes[lane()] = &self;
  auto found = std::find_if(warp.gatherings.begin(), warp.gatherings.end(),
                            [&](const Gathering& g) { return (g.mask & mask) != 0; });
  if (found == warp.gatherings.end()) found = warp.gatherings.insert(found, {mask, 0, bytes, site});
  if (found->mask != mask || !(found->site == site) || found->bytes != bytes)
    broken("lanes of a warp meet with different masks or at different places: " +
           text(found->site) + " and " + text(site));
  found->arrived |= bit;
  const int lanes = std::min(32, block.threads - self.index / 32 * 32);
  const unsigned present = lanes == 32 ? ~0u : (1u << lanes) - 1;
  if (found->arrived != (mask & present)) return pause();
  const Gathering all = *found;
  warp.gatherings.erase(found);
  deliver(warp, all);
}

void* shared_memory() { return block.shared; }

void run_grid(dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()>& thread,
              uint64_t seed) {
  block.thread = &thread;
  block.size = size;
  blockDim = size;
  gridDim = grid;
  block.threads = static_cast<int>(size.x * size.y * size.z);
  block.warps.assign(static_cast<size_t>(block.threads + 31) / 32, {});
  // Allocated alone and in the exact size, so that sanitizers detect an overrun.
  block.shared_bytes = shared_bytes;
  block.shared = nullptr;
  void* shared = nullptr;
  if (shared_bytes > 0 && posix_memalign(&shared, 128, shared_bytes) != 0)
    broken("no memory for a block");
  block.shared = static_cast<unsigned char*>(shared);
  block.outside.describe();
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint64_t k = seed % 2 == 1 ? blocks - 1 - b : b;
    blockIdx = {static_cast<unsigned>(k % grid.x), static_cast<unsigned>(k / grid.x % grid.y),
                static_cast<unsigned>(k / grid.x / grid.y)};
    run_block(seed == 0 ? 0 : mixed(seed + k) | 1);
  }
  std::free(shared);
}

}  // namespace cuda_double
