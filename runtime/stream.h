// Stream and Event: the order in which a device does what it is told.
//
// Work issued on one stream is done in the order it was issued. An Event marks a point in that
// order; another stream, or the host, can wait for it. On the CPU work is done when the call that
// issues it returns, so its stream is always idle and its events have happened once recorded.
// Make streams and events ahead of a step: making one may allocate, using one never does. A stream
// is used by one thread at a time.
#pragma once

#include <functional>
#include <memory>

namespace tessera {

class Event {
 public:
  virtual ~Event() = default;
  // True when the work before the last record() is done, or when there was no record().
  virtual bool done() const = 0;
  // Blocks the host until done().
  virtual void synchronize() const = 0;
};

// Work that was issued once and is issued again as one piece, for the price of one call.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  // Issues it on the stream that it was captured on.
  virtual void launch() = 0;
  virtual size_t nodes() const = 0;  // kernels, copies and fills in it
};

class Stream {
 public:
  virtual ~Stream() = default;
  // An event for record() and wait() of streams on the same kind of device.
  virtual std::unique_ptr<Event> make_event() = 0;
  // Moves the event to here: after everything issued on this stream so far.
  virtual void record(Event& event) = 0;
  // What is issued on this stream from now on starts after the event; the host does not wait.
  virtual void wait(const Event& event) = 0;
  // Blocks the host until everything issued so far is done.
  virtual void synchronize() = 0;
  // What `issue` issues on this stream, which is not done now; events that it records are recorded
  // by each launch. It must not wait, copy from or to memory that the device cannot read itself, or
  // use another stream. nullptr, and nothing is called, on the CPU, where there is nothing to gain.
  virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& issue) = 0;
};

// A stream of the CPU: calls are done when they return.
std::unique_ptr<Stream> make_cpu_stream();

}  // namespace tessera
