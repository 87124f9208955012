// SimulatedNetwork: processes as threads of one program. Messages arrive after a number of polls
// that follows from a seed, so those of different tags overtake one another.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tessera/runtime/error.h"
#include "tessera/runtime/exchange/exchange.h"
#include "tessera/runtime/random.h"

namespace tessera {

class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(int size, uint64_t seed = 0) : size_(size), random_(seed, 0) {}

  std::function<std::unique_ptr<Transport>()> of(int rank) {
    return [this, rank] { return std::make_unique<End>(*this, rank); };
  }
  // The rank sends nothing more, from this number of calls of send() on.
  void silence(int rank, int64_t after) { silent_[rank] = after; }

  // Calls run(exchange) in a thread for each rank. Rethrows the first exception.
  template <class F>
  void run(const F& run, double timeout = 60) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(static_cast<size_t>(size_));
    for (int rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        try {
          const auto exchange = std::make_shared<Exchange>(of(rank), timeout);
          if constexpr (std::is_invocable_v<F, Exchange&>)
            run(*exchange);
          else
            run(exchange);
        } catch (...) {
          errors[static_cast<size_t>(rank)] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }

  int64_t messages() const { return messages_; }

 private:
  using Way = std::tuple<int, int, int>;  // from, to, tag
  struct Message {
    std::vector<std::byte> bytes;
    int polls;  // before it arrives
  };

  class End final : public Transport {
   public:
    End(SimulatedNetwork& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    void abort(int) override {}
    double seconds() const override {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    }
    Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
      std::lock_guard lock(all_.mutex_);
      const auto silent = all_.silent_.find(rank_);
      if (silent == all_.silent_.end() || silent->second-- > 0) {
        ++all_.messages_;
        all_.ways_[{rank_, to, tag}].push_back(
            {{bytes.begin(), bytes.end()}, static_cast<int>(all_.random_.below(6))});
      }
      return -1;
    }
    Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
      wanted_[next_] = {{from, rank_, tag}, bytes};
      order_[{from, rank_, tag}].push_back(next_);
      return next_++;
    }
    bool done(Ticket ticket) override {
      if (ticket < 0) return true;
      const auto [way, bytes] = wanted_.at(ticket);
      std::deque<Ticket>& order = order_[way];
      if (order.front() != ticket) return false;
      std::lock_guard lock(all_.mutex_);
      std::deque<Message>& messages = all_.ways_[way];
      if (messages.empty() || messages.front().polls-- > 0) return false;
      if (messages.front().bytes.size() != bytes.size())
        throw InternalError("a message has another size than the one that is awaited");
      std::ranges::copy(messages.front().bytes, bytes.begin());
      messages.pop_front();
      order.pop_front();
      wanted_.erase(ticket);
      return true;
    }

   private:
    SimulatedNetwork& all_;
    const int rank_;
    Ticket next_ = 0;
    std::map<Ticket, std::pair<Way, std::span<std::byte>>> wanted_;
    std::map<Way, std::deque<Ticket>> order_;
  };

  const int size_;
  std::mutex mutex_;
  RandomSequence random_;
  std::map<Way, std::deque<Message>> ways_;
  std::map<int, int64_t> silent_;
  int64_t messages_ = 0;
};

}  // namespace tessera
