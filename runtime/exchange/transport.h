// Transport: carries bytes between the processes of one training, which are numbered from 0
// (ranks).
#pragma once

#include <cstddef>
#include <span>

namespace tessera {

// All calls are made by one thread, that of the Exchange. Calls throw PeerError if a process is
// lost or the network fails.
class Transport {
 public:
  using Ticket = int;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Start to send to or to receive from a rank. The bytes must stay valid, and sent bytes
  // unchanged, until done(ticket) has returned true. What one rank sends another with one tag
  // arrives in order, in messages of the sizes that were sent; tags are below 32,768.
  virtual Ticket send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual Ticket receive(int from, int tag, std::span<std::byte> bytes) = 0;
  // Returns true, once, if a message has been sent or received; the ticket is then void.
  virtual bool done(Ticket ticket) = 0;
  // Ends all processes of the training with this exit code, as far as the transport can.
  virtual void abort(int code) = 0;
  // Seconds from some moment on; deadlines use this clock.
  virtual double seconds() const = 0;
};

}  // namespace tessera
