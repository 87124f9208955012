#include "tessera/models/run/confusion_matrix.h"

#include <fmt/format.h>

namespace tessera {

void ConfusionMatrix::add(int64_t truth, int64_t prediction) {
  if (truth < 0 || truth >= classes || prediction < 0 || prediction >= classes) return;
  ++counts[static_cast<size_t>(truth * classes + prediction)];
}

std::string ConfusionMatrix::text(int64_t most) const {
  if (classes == 0 || classes > most) return "";
  std::string text = "truth \\ taken for";
  for (int64_t p = 0; p < classes; ++p) text += fmt::format("{:>6}", p);
  text += '\n';
  for (int64_t t = 0; t < classes; ++t) {
    text += fmt::format("{:>17}", t);
    for (int64_t p = 0; p < classes; ++p) text += fmt::format("{:>6}", count(t, p));
    text += '\n';
  }
  return text;
}

}  // namespace tessera
