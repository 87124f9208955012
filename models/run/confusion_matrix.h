// What images of each class were taken for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// counts[truth * classes + prediction], over the test images.
struct ConfusionMatrix {
  int64_t classes = 0;
  std::vector<int64_t> counts;

  explicit ConfusionMatrix(int64_t classes = 0)
      : classes(classes), counts(static_cast<size_t>(classes * classes)) {}
  // Labels and predictions outside of [0, classes) are passed over.
  void add(int64_t truth, int64_t prediction);
  int64_t count(int64_t truth, int64_t prediction) const {
    return counts[static_cast<size_t>(truth * classes + prediction)];
  }
  // For a terminal, classes by number; "" above `most` classes.
  std::string text(int64_t most = 20) const;
};

}  // namespace tessera
