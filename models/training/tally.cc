#include "tessera/models/training/tally.h"

#include "tessera/graph/compile.h"

namespace tessera {

void Tally::add(CompiledStep& step, int64_t count) {
  loss += step.host_output(0).item<double>() * static_cast<double>(count);
  correct += step.host_output(1).item<double>();
  images += count;
}

void Tally::resume(double loss_sum, double correct_sum, int64_t image_count) {
  loss = loss_sum;
  correct = correct_sum;
  images = before = image_count;
}

double Tally::rate() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<double>(images - before) / seconds;
}

}  // namespace tessera
