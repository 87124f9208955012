/* What tests ask of the double, and plant in it. Simulated time says in what order and beside what
   things were done, not how fast a machine is. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As TESSERA_DOUBLE: "eager", "lazy", "random:SEED". What was issued before is done first. */
void cuda_double_schedule(const char* text);

// clang-format off
/* As TESSERA_DOUBLE_FAIL, counted from now on; "" is none, and mends what had failed.
     malloc:N         the N-th cudaMalloc has no memory
     pinned:N         the N-th cudaHostAlloc has none
     call:N           the N-th call of the runtime fails (cudaErrorUnknown)
     sticky:kernel:N  the N-th kernel that runs reads where it must not: it and every later call fail
     sticky:call:N    likewise, from the N-th call on
     dnn:plan:N       the N-th plan that cuDNN is asked for is not supported
     dnn:run:N        the N-th plan that is run cannot be */
// clang-format on
void cuda_double_fail(const char* text);
/* The call that failed as planted; "" where none has. */
const char* cuda_double_failed_call(void);

struct cuda_double_counts {
  long allocations, frees, pinned_allocations, kernels, graph_launches, copies, sets, waits, calls,
      calls_after_failure;
};
/* Since the process began. A graph counts once, whatever is in it. */
struct cuda_double_counts cuda_double_counts_now(void);

/* What is there now: bytes as asked for, captures that have begun and not ended. A failure that is
   planted in a call which gives something back leaves that here. */
struct cuda_double_held {
  size_t device_bytes, pinned_bytes;
  long streams, events, graphs, captures;
};
struct cuda_double_held cuda_double_held_now(void);

/* The kernel that runs now; "" outside of kernels. */
const char* cuda_double_kernel(void);

/* Whether a touch of device memory by the host, outside kernels and copies, stops the process;
   returns whether it did. As TESSERA_DOUBLE_PROTECT. */
int cuda_double_protect(int on);

/* What was done: kernels, copies, sets; in simulated seconds. */
struct cuda_double_done {
  const char* name;
  int stream; /* in the order in which streams were made */
  double start, end;
};
/* Copies the first `most` of them and returns how many there are. Names stay valid until they are
   forgotten. */
long cuda_double_list_done(struct cuda_double_done* to, long most);
void cuda_double_forget_done(void);
/* The host's time: 5 us for each call, and where it waited. */
double cuda_double_now(void);
/* Lets the host be busy. */
void cuda_double_pass(double seconds);

#ifdef __cplusplus
}
#endif
