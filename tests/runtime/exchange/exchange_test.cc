#include "tessera/runtime/exchange/exchange.h"

#include <gtest/gtest.h>

#include "tessera/tests/runtime/exchange/simulated_network.h"

namespace tessera {
namespace {

TEST(PartTree, IsABinaryCounterThatDependsOnThePartsAlone) {
  std::vector<PartNode> stack;
  std::vector<int> additions;
  const PartTree six(6);
  for (int64_t k = 0; k < 6; ++k) additions.push_back(six.push(stack, {0, k}));
  EXPECT_EQ(additions, (std::vector<int>{0, 1, 0, 2, 0, 2}));  // the last two: ((0..3) + (4..5))
  EXPECT_EQ(stack, (std::vector<PartNode>{{3, 0}}));
  // The sums of processes with neighbouring parts fit together, wherever they are cut.
  for (int64_t parts = 1; parts <= 40; ++parts)
    for (int size = 1; size <= parts; ++size) {
      const PartTree tree(parts);
      std::vector<PartNode> all;
      int64_t added = 0;
      for (int rank = 0; rank < size; ++rank) {
        const PartRange own = parts_of_rank(parts, rank, size);
        const std::vector<PartNode> cover = tree.cover(own.first, own.last);
        ASSERT_GT(own.count(), 0);
        added += own.count() - std::ssize(cover);
        for (const PartNode& node : cover) added += tree.push(all, node);
      }
      ASSERT_EQ(all.size(), 1u) << parts << " parts, " << size << " processes";
      ASSERT_EQ(added, parts - 1);
    }
}

// Values whose sum depends on the order of the additions.
std::vector<float> values_of_part(int64_t part, int64_t count) {
  RandomSequence random(99, static_cast<uint64_t>(part));
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(random.below(1000003)) * (i % 3 == 0 ? 1e-6f : 0.37f));
  return values;
}

void add(std::vector<float>& to, const std::vector<float>& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

// The sums of the parts of a process, in order.
std::vector<std::vector<float>> own_sums(int64_t parts, PartRange own, int64_t count) {
  std::vector<PartNode> nodes;
  std::vector<std::vector<float>> sums;
  for (int64_t k = own.first; k < own.last; ++k) {
    std::vector<float> value = values_of_part(k, count);
    for (int n = PartTree(parts).push(nodes, {0, k}); n > 0; --n) {
      add(sums.back(), value);
      value = sums.back();
      sums.pop_back();
    }
    sums.push_back(value);
  }
  return sums;
}

TEST(Exchange, ASumHasTheSameBitsForAnyNumberOfProcesses) {
  const std::vector<int64_t> counts{5000, 1, 64};
  for (const int64_t parts : {1, 3, 4, 7, 8}) {
    std::vector<std::vector<float>> wanted;
    for (const int64_t count : counts) wanted.push_back(own_sums(parts, {0, parts}, count)[0]);
    for (int size = 1; size <= parts; ++size)
      for (uint64_t seed = 0; seed < 8; ++seed) {
        SimulatedNetwork network(size, seed);
        network.run([&](Exchange& exchange) {
          const PartRange own = parts_of_rank(parts, exchange.rank(), size);
          for (int tag = 0; tag < 3; ++tag) {
            FoldJob job(exchange, tag, parts, counts);
            std::vector<std::vector<std::vector<float>>> sums;
            std::vector<std::vector<float>> results;
            for (size_t t = 0; t < counts.size(); ++t) {
              sums.push_back(own_sums(parts, own, counts[t]));
              ASSERT_EQ(std::ssize(sums[t]), job.own_sums());
              results.emplace_back(counts[t]);
            }
            std::vector<float> received(static_cast<size_t>(job.received_elements()));
            for (size_t t = 0; t < counts.size(); ++t) {
              for (size_t i = 0; i < sums[t].size(); ++i)
                job.own[t * sums[t].size() + i] = sums[t][i].data();
              job.result[t] = results[t].data();
            }
            job.received = received.data();
            exchange.post(job);
            exchange.wait(job);
            ASSERT_EQ(results, wanted) << parts << " parts, " << size << " processes, " << seed;
          }
        });
      }
  }
}

TEST(Exchange, SpreadsTheValuesOfAllParts) {
  for (int size = 1; size <= 5; ++size) {
    SimulatedNetwork network(size, 7);
    network.run([&](Exchange& exchange) {
      SpreadJob job(exchange, 4, 5, 10);
      const PartRange own = job.own_parts();
      std::vector<std::vector<float>> values(5, std::vector<float>(10));
      std::vector<float*> others;
      for (int64_t k = 0; k < 5; ++k) {
        auto& value = values[static_cast<size_t>(k)];
        if (k < own.first || k >= own.last) {
          others.push_back(value.data());
          continue;
        }
        value = values_of_part(k, 10);
        job.own[static_cast<size_t>(k - own.first)] = value.data();
      }
      ASSERT_EQ(others.size(), job.others.size());
      job.others = others;
      exchange.post(job);
      exchange.wait(job);
      for (int64_t k = 0; k < 5; ++k)
        EXPECT_EQ(values[static_cast<size_t>(k)], values_of_part(k, 10)) << size;
    });
  }
}

TEST(Exchange, GathersTextsOfAnyLength) {
  SimulatedNetwork network(3, 1);
  network.run([](Exchange& exchange) {
    const auto own = [](int rank) { return std::string(static_cast<size_t>(rank) * 1000, 'a'); };
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(exchange.gather(own(exchange.rank())),
                (std::vector<std::string>{own(0), own(1), own(2)}));
  });
}

TEST(Exchange, AProcessThatIsSilentIsAnError) {
  SimulatedNetwork network(3, 1);
  network.silence(2, 6);  // after the names of the computers, and a message

  try {
    network.run([](Exchange& exchange) { exchange.gather("text"); }, 0.2);
    FAIL() << "waited for a process that sends nothing";
  } catch (const PeerError& error) {
    EXPECT_NE(std::string(error.what()).find("process 2 on "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
