// Exchange: what the processes of a training tell one another while a step goes on. A thread of its
// own carries the messages, so a step posts a job and waits where it reads the result.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/runtime/exchange/part_tree.h"
#include "tessera/runtime/exchange/transport.h"

namespace tessera {

class Exchange;

// A collective operation: every process runs one with the same tag, in the same order. May be
// posted again when it is done.
class ExchangeJob {
 public:
  virtual ~ExchangeJob() = default;
  ExchangeJob(const ExchangeJob&) = delete;
  ExchangeJob& operator=(const ExchangeJob&) = delete;

 protected:
  ExchangeJob(const Exchange& exchange, int tag);  // 0 <= tag < 16,384
  // Begin a message to or from another rank; `reply` tells the second kind of messages of a job
  // from the first.
  void send(Transport& transport, int to, std::span<const std::byte> bytes, bool reply = false);
  void receive(Transport& transport, int from, std::span<std::byte> bytes, bool reply = false);
  // Returns true if no message is under way any more.
  bool messages_done(Transport& transport);

  const int rank_, size_, tag_;

 private:
  friend class Exchange;
  // Called by the exchange's thread. advance() returns true when the job is done; neither waits.
  virtual void start(Transport& transport) = 0;
  virtual bool advance(Transport& transport) = 0;
  // Returns how many timeouts it waits: more for a process that may itself wait for another, so
  // that it has the time to name that one.
  virtual double patience() const { return 1; }

  struct Message {
    int peer;
    Transport::Ticket ticket;
  };
  std::vector<Message> open_;  // messages under way
  bool busy_ = false;          // guarded by the exchange
  double began_ = 0;
};

class Exchange {
 public:
  // `make` is called by the exchange's thread, the only one that uses the transport. Throws what
  // `make` throws. A job that is not done `timeout` seconds after it was posted fails, one
  // that waits for a sum a quarter later.
  Exchange(const std::function<std::unique_ptr<Transport>()>& make, double timeout);
  // An exchange that is only planned with: no job may be posted.
  Exchange(int rank, int size) : timeout_(0), rank_(rank), size_(size) {}
  ~Exchange();  // requires that no job is posted that is not done

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  // Returns the number of lower ranks on the same host; 0 if it is only planned with.
  int rank_on_host() const;

  // Starts a job; allocates nothing.
  void post(ExchangeJob& job);
  // Waits until it is done. Throws PeerError if it or an earlier job failed.
  void wait(ExchangeJob& job);
  // Drops all jobs, so that their memory may be freed; later ones fail.
  void abandon();

  // Returns the time that wait() took so far.
  double wait_seconds() const { return waited_; }
  // Ends the other processes, and maybe this one, with this exit code.
  void abort(int code);
  // Returns the bytes of every rank, in order; each rank calls it with its own.
  std::vector<std::string> gather(const std::string& own);

 private:
  void run(const std::function<std::unique_ptr<Transport>()>& make);
  bool advance_all();
  std::string missing_text(const ExchangeJob& job) const;
  void fail(const std::string& why);

  const double timeout_;
  std::unique_ptr<Transport> transport_;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;
  double waited_ = 0;  // seconds
  std::mutex mutex_;   // guards the members below
  std::condition_variable posted_, done_;
  std::vector<ExchangeJob*> new_jobs_;
  std::exception_ptr not_made_;
  std::string failure_;
  bool ready_ = false, stop_ = false;
  bool idle_ = false;                         // after a failure: all jobs are dropped
  int abort_ = 0;                             // exit code
  std::vector<ExchangeJob*> begun_, active_;  // used by the thread only
  std::thread thread_;
};

// Destroyed by an exception, drops the jobs of an exchange before the memory that they use is
// freed. Put it behind that memory.
class AbandonOnError {
 public:
  explicit AbandonOnError(std::shared_ptr<Exchange> exchange)
      : exchange_(std::move(exchange)), before_(std::uncaught_exceptions()) {}
  ~AbandonOnError() {
    if (exchange_ && by_error()) exchange_->abandon();
  }
  AbandonOnError(const AbandonOnError&) = delete;
  AbandonOnError& operator=(const AbandonOnError&) = delete;
  bool by_error() const { return std::uncaught_exceptions() > before_; }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const int before_;
};

// Adds float32 tensors over all parts of a batch, in the order of PartTree. Each process has the
// sums that PartTree::cover() names for its parts. They are sent to the owner, rank tag % size,
// which adds and sends the result to all.
class FoldJob final : public ExchangeJob {
 public:
  // elements: of each tensor.
  FoldJob(const Exchange& exchange, int tag, int64_t parts, std::vector<int64_t> elements);

  // Returns the number of own sums of each tensor, and the elements that an owner receives.
  int64_t own_sums() const { return std::ssize(covers_[static_cast<size_t>(rank_)]); }
  int64_t received_elements() const;

  // Set before it is posted: own[t * own_sums() + i] is sum i of tensor t.
  std::vector<const float*> own;
  std::vector<float*> result;
  float* received = nullptr;

 private:
  void start(Transport& transport) override;
  bool advance(Transport& transport) override;
  double patience() const override { return rank_ == owner_ ? 1 : 1.25; }
  void fold();
  void add_up(size_t tensor, int64_t first, int64_t count);
  float* received_sum(size_t rank, size_t i, size_t tensor) const;

  const int owner_;
  const PartTree tree_;
  const std::vector<int64_t> elements_;
  std::vector<int64_t> begins_;  // position of each tensor in a set of all; then its size
  std::vector<std::vector<PartNode>> covers_;  // by rank
  bool folded_ = false;
  std::vector<PartNode> stack_;
  std::vector<float> sums_;  // a piece of each sum of the stack
};

// Gives every process the float32 values of all parts, of which each process has those of its own.
class SpreadJob final : public ExchangeJob {
 public:
  SpreadJob(const Exchange& exchange, int tag, int64_t parts, int64_t elements);

  PartRange own_parts() const { return parts_of_rank(parts_, rank_, size_); }
  // Set before it is posted: the values of own parts, then those of the other parts, in order.
  std::vector<const float*> own;
  std::vector<float*> others;

 private:
  void start(Transport& transport) override;
  bool advance(Transport& transport) override { return messages_done(transport); }

  const int64_t parts_, elements_;
};

// Joins a training that mpirun or srun started in several processes. Returns the exchange with the
// others; nullptr if this program was started alone. Loads libtessera_mpi.so from the folder of the
// program or ../lib/tessera. Throws ConfigError if there is none, or if it is of another MPI than
// the one that started the processes. `timeout`: see Exchange.
std::shared_ptr<Exchange> join_processes(double timeout);

// Throws ConfigError if mpirun or srun started several processes of a command that runs alone.
void require_one_process(const char* command);

}  // namespace tessera
