#include "tessera/runtime/text/spelling.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera {

namespace {

// Returns the edit distance: insertions, deletions, replacements and swaps of neighbours.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    last.swap(now);
  }
  return last[b.size()];
}

constexpr size_t kLongestWord = 64;  // a longer word is no typing error

// Returns the number of errors that leave a word recognisable.
size_t max_errors(size_t length) { return length <= 3 ? 1 : std::max<size_t>(2, length / 3); }

}  // namespace

std::string nearest_spelling(std::string_view word, const std::vector<std::string>& known) {
  if (word.empty() || word.size() > kLongestWord) return "";
  // Order by errors, then by difference in length, then by the length of the common prefix.
  using Cost = std::array<size_t, 3>;
  std::string best;
  Cost least{kLongestWord, 0, 0};
  for (const std::string& name : known) {
    const size_t longer = std::max(name.size(), word.size());
    const size_t difference = longer - std::min(name.size(), word.size());
    if (difference > max_errors(longer)) continue;
    const auto alike = static_cast<size_t>(
        std::mismatch(word.begin(), word.end(), name.begin(), name.end()).first - word.begin());
    const Cost cost{distance(word, name), difference, kLongestWord - alike};
    if (cost[0] > max_errors(longer) || cost >= least) continue;
    least = cost;
    best = name;
  }
  return best;
}

std::string unknown_name(std::string_view word, const std::vector<std::string>& known) {
  std::string nearest = nearest_spelling(word, known);
  return fmt::format("'{}' is not one of {}{}", word, fmt::join(known, ", "),
                     nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

}  // namespace tessera
