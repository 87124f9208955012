#include "tessera/models/run/calibration.h"

#include <algorithm>
#include <limits>

namespace tessera {

namespace {

// Never the NaN with a sign, which prints as -nan.
double mean(double sum, int64_t images) {
  const double value = sum / static_cast<double>(images);
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace

void Calibration::add(double sure, bool is_right) {
  // Of a float32 the product is exact, so an edge is on the side that the header says.
  const double above = std::isfinite(sure) ? std::ceil(sure * kBins) - 1 : 0;
  Bin& bin = bins[static_cast<size_t>(std::clamp<double>(above, 0, kBins - 1))];
  ++bin.images;
  bin.right += is_right ? 1 : 0;
  bin.sure += sure;
}

int64_t Calibration::images() const {
  int64_t sum = 0;
  for (const Bin& bin : bins) sum += bin.images;
  return sum;
}

double Calibration::confidence() const {
  double sum = 0;
  for (const Bin& bin : bins) sum += bin.sure;
  return mean(sum, images());
}

double Calibration::error() const {
  double sum = 0;
  for (const Bin& bin : bins) sum += std::abs(static_cast<double>(bin.right) - bin.sure);
  return mean(sum, images());
}

}  // namespace tessera
