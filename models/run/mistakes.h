// Images that were taken for another class, the surest mistakes first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct Mistake {
  int64_t sample = 0;  // its index in the data
  int64_t truth = 0, taken_for = 0;
  double share = 0;     // how sure the network was, in [0, 1]
  std::string picture;  // a URI (models/run/thumbnail.h), or empty
};

// Keeps the worst `most` of those that are added.
class WorstMistakes {
 public:
  void add(const Mistake& mistake, size_t most = 24) {
    const auto worse = [](const Mistake& a, const Mistake& b) { return a.share > b.share; };
    if (all_.size() == most && !worse(mistake, all_.back())) return;
    all_.insert(std::upper_bound(all_.begin(), all_.end(), mistake, worse), mistake);
    if (all_.size() > most) all_.pop_back();
  }
  const std::vector<Mistake>& all() const { return all_; }

 private:
  std::vector<Mistake> all_;
};

}  // namespace tessera
