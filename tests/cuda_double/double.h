/* The interface of the double for tests. Simulated time shows the order and overlap of operations,
   not how fast a machine is. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets TESSERA_DOUBLE: "eager", "lazy", "random:SEED". Runs issued work first. */
void cuda_double_schedule(const char* text);

// clang-format off
/* Sets TESSERA_DOUBLE_FAIL, counted from now on; "" is none, and clears a failure.
     malloc:N         the N-th cudaMalloc has no memory
     pinned:N         the N-th cudaHostAlloc has none
     call:N           the N-th call of the runtime fails (cudaErrorUnknown)
     sticky:kernel:N  the N-th kernel reads an illegal address: it and every later call fail
     sticky:call:N    likewise, from the N-th call on
     dnn:plan:N       the N-th plan requested of cuDNN is not supported
     dnn:run:N        the N-th plan that is run fails */
// clang-format on
void cuda_double_fail(const char* text);
/* Returns the call that failed as planted; "" if none has. */
const char* cuda_double_failed_call(void);

struct cuda_double_counts {
  long allocations, frees, pinned_allocations, kernels, graph_launches, copies, sets, waits, calls,
      calls_after_failure;
};
/* Returns the counts since the process began. A graph counts once, whatever is in it. */
struct cuda_double_counts cuda_double_counts_now(void);

/* Existing objects: requested bytes, captures that have begun and not ended. If a failure is
   planted in a call that frees something, the object stays. */
struct cuda_double_held {
  size_t device_bytes, pinned_bytes;
  long streams, events, graphs, captures;
};
struct cuda_double_held cuda_double_held_now(void);

/* Returns the running kernel; "" outside of kernels. */
const char* cuda_double_kernel(void);

/* Sets TESSERA_DOUBLE_PROTECT: whether an access to device memory by the host, outside kernels and
   copies, stops the process. Returns the previous value. */
int cuda_double_protect(int on);

/* A finished kernel, copy or set; in simulated seconds. */
struct cuda_double_done {
  const char* name;
  int stream; /* in the order in which streams were made */
  double start, end;
};
/* Copies the first `most` records and returns the number of records. Names stay valid until
   cuda_double_forget_done(). */
long cuda_double_list_done(struct cuda_double_done* to, long most);
void cuda_double_forget_done(void);
/* Returns the host's time: 5 us for each call, and the time that it waited. */
double cuda_double_now(void);
/* Keeps the host busy. */
void cuda_double_pass(double seconds);

#ifdef __cplusplus
}
#endif
