#include "tessera/runtime/exchange/exchange.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

namespace {

std::span<const std::byte> bytes_of(const float* values, int64_t count) {
  return std::as_bytes(std::span(values, static_cast<size_t>(count)));
}
std::span<std::byte> bytes_of(float* values, int64_t count) {
  return std::as_writable_bytes(std::span(values, static_cast<size_t>(count)));
}

// Gathers texts: their sizes first.
class GatherJob final : public ExchangeJob {
 public:
  static constexpr int kTag = 16383;

  GatherJob(const Exchange& exchange, const std::string& own)
      : ExchangeJob(exchange, kTag),
        all(static_cast<size_t>(size_)),
        own_(own),
        sizes_(static_cast<size_t>(size_), own.size()) {
    all[static_cast<size_t>(rank_)] = own;
  }
  std::vector<std::string> all;

 private:
  void start(Transport& transport) override {
    const auto own = std::as_bytes(std::span(&sizes_[static_cast<size_t>(rank_)], 1));
    for_others([&](int other, size_t i) {
      send(transport, other, own);
      receive(transport, other, std::as_writable_bytes(std::span(&sizes_[i], 1)));
    });
  }
  bool advance(Transport& transport) override {
    if (!messages_done(transport)) return false;
    if (std::exchange(sized_, true)) return true;
    for_others([&](int other, size_t i) {
      all[i].resize(sizes_[i]);
      send(transport, other, std::as_bytes(std::span(own_)), true);
      receive(transport, other, std::as_writable_bytes(std::span(all[i])), true);
    });
    return false;
  }
  template <class F>
  void for_others(F run) {
    for (size_t i = 0; i < all.size(); ++i)
      if (static_cast<int>(i) != rank_) run(static_cast<int>(i), i);
  }

  const std::string& own_;
  std::vector<size_t> sizes_;
  bool sized_ = false;
};

constexpr const char* kModule = "libtessera_mpi.so";

// Returns the installed module of MPI, or that of a build, beside the program.
std::filesystem::path module_path() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto installed = folder / "../lib/tessera" / kModule;
  return std::filesystem::exists(installed, error) ? installed : folder / kModule;
}

// Returns the number of processes that mpirun or srun says it started; 1 if neither did.
int started_processes() {
  // Open MPI; MPICH, Intel MPI and srun --mpi=pmi2; srun.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* value = std::getenv(name); value != nullptr && std::atoi(value) > 0)
      return std::atoi(value);
  return 1;
}

}  // namespace

ExchangeJob::ExchangeJob(const Exchange& exchange, int tag)
    : rank_(exchange.rank()), size_(exchange.size()), tag_(tag) {}

void ExchangeJob::send(Transport& transport, int to, std::span<const std::byte> bytes, bool reply) {
  open_.push_back({to, transport.send(to, 2 * tag_ + reply, bytes)});
}

void ExchangeJob::receive(Transport& transport, int from, std::span<std::byte> bytes, bool reply) {
  open_.push_back({from, transport.receive(from, 2 * tag_ + reply, bytes)});
}

bool ExchangeJob::messages_done(Transport& transport) {
  std::erase_if(open_, [&](const Message& open) { return transport.done(open.ticket); });
  return open_.empty();
}

Exchange::Exchange(const std::function<std::unique_ptr<Transport>()>& make, double timeout)
    : timeout_(timeout) {
  constexpr size_t kJobs = 1024;  // at once in any step; more only make these longer
  for (std::vector<ExchangeJob*>* jobs : {&new_jobs_, &begun_, &active_}) jobs->reserve(kJobs);
  thread_ = start_thread("the exchange with other processes", "start fewer processes",
                         [this, &make] { run(make); });
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ready_; });
  }
  if (not_made_) thread_.join(), std::rethrow_exception(not_made_);
  char host[256] = "?";
  gethostname(host, sizeof(host) - 1);
  hosts_ = gather(host);
}

Exchange::~Exchange() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  posted_.notify_all();
  if (thread_.joinable()) thread_.join();
}

int Exchange::rank_on_host() const {
  const auto own = hosts_.begin() + (hosts_.empty() ? 0 : rank_);
  return static_cast<int>(hosts_.empty() ? 0 : std::count(hosts_.begin(), own, *own));
}

void Exchange::run(const std::function<std::unique_ptr<Transport>()>& make) {
  {
    std::lock_guard lock(mutex_);
    try {
      transport_ = make();
      rank_ = transport_->rank(), size_ = transport_->size();
    } catch (...) {
      not_made_ = std::current_exception();
    }
    ready_ = true;
  }
  done_.notify_all();
  while (!not_made_) {
    {
      std::unique_lock lock(mutex_);
      if (active_.empty())
        posted_.wait(lock, [&] { return stop_ || !failure_.empty() || !new_jobs_.empty(); });
      if (abort_ != 0) transport_->abort(abort_);
      if (stop_) break;
      if (!failure_.empty()) {
        active_.clear(), new_jobs_.clear();
        idle_ = true;
        done_.notify_all();
        posted_.wait(lock, [&] { return stop_; });
        continue;
      }
    }
    // Others of this process and of this computer need the core.
    if (!advance_all()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  transport_.reset();  // by the thread that made it
}

// Returns false if nothing could be done.
bool Exchange::advance_all() {
  begun_.clear();
  {
    std::lock_guard lock(mutex_);
    begun_.swap(new_jobs_);
  }
  bool any = !begun_.empty();
  try {
    for (ExchangeJob* job : begun_) {
      active_.push_back(job);
      job->began_ = transport_->seconds();
      job->start(*transport_);
    }
    for (size_t i = 0; i < active_.size(); ++i) {
      ExchangeJob* job = active_[i];
      if (!job->advance(*transport_)) {
        if (transport_->seconds() - job->began_ > timeout_ * job->patience())
          throw PeerError(missing_text(*job));
        continue;
      }
      any = true;
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i--));
      std::lock_guard lock(mutex_);
      job->busy_ = false;
      done_.notify_all();
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
  return any;
}

std::string Exchange::missing_text(const ExchangeJob& job) const {
  std::string text;
  std::vector<int> named;
  for (const ExchangeJob::Message& open : job.open_) {
    if (std::ranges::find(named, open.peer) != named.end()) continue;
    named.push_back(open.peer);
    text += fmt::format("{}process {}{}", text.empty() ? "" : ", ", open.peer,
                        hosts_.empty() ? "" : " on " + host(open.peer));
  }
  return fmt::format(
      "{} of {} has not answered for {} s (distributed.timeout): it was ended, hangs, or its "
      "network is down; resume with --resume from the last checkpoint",
      text, size_, timeout_ * job.patience());
}

void Exchange::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  done_.notify_all();
}

void Exchange::abandon() {
  std::unique_lock lock(mutex_);
  if (failure_.empty()) failure_ = "this process has ended the training";
  posted_.notify_all();
  done_.wait(lock, [&] { return idle_; });
}

void Exchange::abort(int code) {
  const std::lock_guard lock(mutex_);
  stop_ = true, abort_ = code;
  posted_.notify_all();
}

void Exchange::post(ExchangeJob& job) {
  {
    std::lock_guard lock(mutex_);
    if (!thread_.joinable()) throw InternalError("a message in a plan");
    if (!failure_.empty()) throw PeerError(failure_);
    job.busy_ = true;
    new_jobs_.push_back(&job);
  }
  posted_.notify_one();
}

void Exchange::wait(ExchangeJob& job) {
  const auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !job.busy_ || !failure_.empty(); });
  waited_ += seconds_since(began);
  if (job.busy_) throw PeerError(failure_);
}

std::vector<std::string> Exchange::gather(const std::string& own) {
  GatherJob job(*this, own);
  post(job);
  wait(job);
  return std::move(job.all);
}

FoldJob::FoldJob(const Exchange& exchange, int tag, int64_t parts, std::vector<int64_t> elements)
    : ExchangeJob(exchange, tag),
      owner_(tag % exchange.size()),
      tree_(parts),
      elements_(std::move(elements)) {
  int64_t all = 0;
  for (const int64_t count : elements_) begins_.push_back(std::exchange(all, all + count));
  begins_.push_back(all);
  for (int rank = 0; rank < size_; ++rank) {
    const PartRange range = parts_of_rank(parts, rank, size_);
    covers_.push_back(tree_.cover(range.first, range.last));
  }
  own.resize(elements_.size() * static_cast<size_t>(own_sums()));
  result.resize(elements_.size());
}

int64_t FoldJob::received_elements() const {
  int64_t sums = 0;
  for (int rank = 0; rank < size_; ++rank)
    if (rank != owner_) sums += std::ssize(covers_[static_cast<size_t>(rank)]);
  return rank_ == owner_ ? sums * begins_.back() : 0;
}

// Returns where sum i of a rank's tensor arrives.
float* FoldJob::received_sum(size_t rank, size_t i, size_t tensor) const {
  for (size_t r = 0; r < rank; ++r)
    if (static_cast<int>(r) != rank_) i += covers_[r].size();
  return received + static_cast<int64_t>(i) * begins_.back() + begins_[tensor];
}

void FoldJob::start(Transport& transport) {
  folded_ = rank_ != owner_;
  const auto sums = static_cast<size_t>(own_sums());
  for (size_t t = 0; t < elements_.size(); ++t) {
    if (rank_ != owner_) {
      for (size_t i = 0; i < sums; ++i)
        send(transport, owner_, bytes_of(own[t * sums + i], elements_[t]));
      receive(transport, owner_, bytes_of(result[t], elements_[t]), true);
      continue;
    }
    for (size_t rank = 0; rank < covers_.size(); ++rank)
      for (size_t i = 0; i < covers_[rank].size() && static_cast<int>(rank) != rank_; ++i)
        receive(transport, static_cast<int>(rank),
                bytes_of(received_sum(rank, i, t), elements_[t]));
  }
}

bool FoldJob::advance(Transport& transport) {
  if (!messages_done(transport)) return false;
  if (std::exchange(folded_, true)) return true;
  fold();
  for (int rank = 0; rank < size_; ++rank)
    for (size_t t = 0; t < elements_.size() && rank != rank_; ++t)
      send(transport, rank, bytes_of(result[t], elements_[t]), true);
  return false;
}

void FoldJob::fold() {
  constexpr int64_t kPiece = 2048;
  for (size_t t = 0; t < elements_.size(); ++t)
    for (int64_t i = 0; i < elements_[t]; i += kPiece)
      add_up(t, i, std::min(kPiece, elements_[t] - i));
}

// Adds a piece of a tensor.
void FoldJob::add_up(size_t tensor, int64_t first, int64_t count) {
  stack_.clear();
  const auto sums = static_cast<size_t>(own_sums()), piece = static_cast<size_t>(count);
  for (size_t rank = 0; rank < covers_.size(); ++rank)
    for (size_t i = 0; i < covers_[rank].size(); ++i) {
      const float* from =
          static_cast<int>(rank) == rank_ ? own[tensor * sums + i] : received_sum(rank, i, tensor);
      const size_t additions = static_cast<size_t>(tree_.push(stack_, covers_[rank][i]));
      const size_t top = stack_.size() - 1;
      sums_.resize(std::max(sums_.size(), (top + additions + 1) * piece));
      float* value = sums_.data() + (top + additions) * piece;
      std::copy_n(from + first, count, value);
      for (size_t a = 0; a < additions; ++a, value -= piece)
        for (size_t k = 0; k < piece; ++k) value[k - piece] += value[k];
    }
  std::copy_n(sums_.data(), count, result[tensor] + first);
}

SpreadJob::SpreadJob(const Exchange& exchange, int tag, int64_t parts, int64_t elements)
    : ExchangeJob(exchange, tag), parts_(parts), elements_(elements) {
  own.resize(static_cast<size_t>(own_parts().count()));
  others.resize(static_cast<size_t>(parts - own_parts().count()));
}

void SpreadJob::start(Transport& transport) {
  size_t next = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    for (const float* values : own) send(transport, rank, bytes_of(values, elements_));
    for (int64_t k = 0; k < parts_of_rank(parts_, rank, size_).count(); ++k)
      receive(transport, rank, bytes_of(others[next++], elements_));
  }
}

void require_one_process(const char* command) {
  if (const int started = started_processes(); started > 1)
    throw ConfigError(
        fmt::format("{0}: {1} processes were started, but {0} runs in one; start it without mpirun "
                    "or srun",
                    command, started));
}

std::shared_ptr<Exchange> join_processes(double timeout) {
  const int started = started_processes();
  if (started == 1) return nullptr;
  const std::string path = module_path().string();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw ConfigError(
        fmt::format("mpirun: {} processes were started, but this build cannot join them ({}); "
                    "build where MPI is "
                    "installed (on Debian: libopenmpi-dev), or start the program alone",
                    started, dlerror()));
  const auto make = reinterpret_cast<Transport* (*)()>(dlsym(library, "tessera_mpi_transport"));
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(library, "tessera_mpi_version"));
  if (make == nullptr || version == nullptr)
    throw ConfigError(fmt::format("mpirun: '{}' is not of this version", path));
  auto exchange =
      std::make_shared<Exchange>([&] { return std::unique_ptr<Transport>(make()); }, timeout);
  if (exchange->size() != started)
    throw ConfigError(fmt::format(
        "mpirun: {} processes were started, but {} finds {}; start them with the mpirun of the MPI "
        "that this program was built with ({})",
        started, kModule, exchange->size(), version()));
  return exchange;
}

}  // namespace tessera
