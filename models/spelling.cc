#include "tessera/models/spelling.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera {

namespace {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    before = last;
    last.swap(now);
  }
  return last[b.size()];
}

constexpr size_t kLongestWord = 64;  // a longer one is no typing error

}  // namespace

std::string nearest_spelling(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLongestWord) return "";
  std::string best;
  size_t fewest = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : known) {
    size_t errors = distance(word, name);
    if (errors < fewest) {
      fewest = errors;
      best = name;
    }
  }
  return best;
}

std::string unknown_name(std::string_view word, const std::vector<std::string>& known) {
  std::string nearest = nearest_spelling(word, known);
  return fmt::format("'{}' is not known;{} (known: {})", word,
                     nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest),
                     fmt::join(known, ", "));
}

}  // namespace tessera
