#include "tessera/models/config/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

int64_t Duration::steps(int64_t steps_per_epoch) const {
  constexpr double kMax = 0x1p62;  // of more, rounding is not defined
  const double factor = unit == Unit::kEpochs ? static_cast<double>(steps_per_epoch) : 1;
  const double exact = std::min(count * factor, kMax);
  return exact > 0 ? std::max<int64_t>(1, std::llround(exact)) : 0;
}

std::string Duration::text() const {
  constexpr const char* kNames[] = {"st", "ep", "min", "h"};
  return fmt::format("{}{}", count, kNames[static_cast<int>(unit)]);
}

Workers Workers::automatic() {
  constexpr int kMax = 16;
  Workers workers(std::min(available_cores(), kMax));
  workers.automatic_ = true;
  return workers;
}

std::string Workers::text() const { return automatic_ ? "auto" : fmt::format("{}", count_); }

std::string ByteSize::text() const { return is_automatic() ? "auto" : exact_byte_text(bytes); }

int64_t TrainConfig::total_steps(int64_t steps_per_epoch) const {
  if (steps) return *steps;
  return Duration{epochs, Duration::Unit::kEpochs}.steps(steps_per_epoch);
}

}  // namespace tessera
