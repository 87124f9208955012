// Stream and Event: the order of work on a device.
//
// Work issued on one stream is done in the order of issue. An Event marks a point in that order,
// for which another stream or the host can wait. On the CPU work is done when the issuing call
// returns, so a stream is always idle and a recorded event has happened. Making a stream or an
// event may allocate, using one never does, so make them before a step. One thread at a time may
// use a stream.
#pragma once

#include <functional>
#include <memory>

namespace tessera {

class Event {
 public:
  virtual ~Event() = default;
  // Returns true if the work before the last record() is done, or if there was no record().
  virtual bool done() const = 0;
  // Blocks the host until done().
  virtual void synchronize() const = 0;
};

// Work that was captured once and is issued again as a whole with one call (a CUDA graph).
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  // Issues the work on the stream on which it was captured.
  virtual void launch() = 0;
  virtual size_t nodes() const = 0;  // kernels, copies and fills in it
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Makes an event for record() and wait() of streams on the same kind of device.
  virtual std::unique_ptr<Event> make_event() = 0;
  // Records the event after all work issued on this stream so far.
  virtual void record(Event& event) = 0;
  // Makes all later work of this stream start after the event; the host does not wait.
  virtual void wait(const Event& event) = 0;
  // Blocks the host until all work issued so far is done.
  virtual void synchronize() = 0;
  // Captures the work that `issue` puts on this stream, without running it. Each launch() runs that
  // work and records the events recorded in it. `issue` must not wait, use another stream, or copy
  // from or to memory that the device cannot access itself. On the CPU returns nullptr without
  // calling `issue`, as capturing would gain nothing.
  virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& issue) = 0;
};

// Makes a stream of the CPU, whose calls are done when they return.
std::unique_ptr<Stream> make_cpu_stream();

}  // namespace tessera
