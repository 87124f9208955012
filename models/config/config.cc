#include "tessera/models/config/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// clang-format off
const char* name_of(Mode value) {
  switch (value) {
    case Mode::kGraph: return "graph";
    case Mode::kEager: return "eager";
  }
  return nullptr;
}

const char* name_of(Sampling value) {
  switch (value) {
    case Sampling::kShuffled: return "shuffled";
    case Sampling::kBalanced: return "balanced";
  }
  return nullptr;
}

const char* name_of(LossKind value) {
  switch (value) {
    case LossKind::kCrossEntropy: return "cross_entropy";
    case LossKind::kBce: return "bce";
    case LossKind::kMse: return "mse";
  }
  return nullptr;
}

const char* name_of(ScheduleKind value) {
  switch (value) {
    case ScheduleKind::kConstant: return "constant";
    case ScheduleKind::kStep: return "step";
    case ScheduleKind::kMultistep: return "multistep";
    case ScheduleKind::kCosine: return "cosine";
    case ScheduleKind::kLinear: return "linear";
    case ScheduleKind::kOneCycle: return "one_cycle";
    case ScheduleKind::kPolynomial: return "polynomial";
    case ScheduleKind::kExponential: return "exponential";
    case ScheduleKind::kCosineRestarts: return "cosine_restarts";
    case ScheduleKind::kWsd: return "wsd";
    case ScheduleKind::kPlateau: return "plateau";
  }
  return nullptr;
}

const char* name_of(OnNonFinite value) {
  switch (value) {
    case OnNonFinite::kStop: return "stop";
    case OnNonFinite::kSkip: return "skip";
  }
  return nullptr;
}

const char* name_of(BestBy value) {
  switch (value) {
    case BestBy::kAccuracy: return "accuracy";
    case BestBy::kLoss: return "loss";
    case BestBy::kNone: return "none";
  }
  return nullptr;
}

const char* name_of(CpuKernels value) {
  switch (value) {
    case CpuKernels::automatic: return "auto";
    case CpuKernels::native: return "native";
    case CpuKernels::eigen: return "eigen";
  }
  return nullptr;
}

const char* name_of(Winograd value) {
  switch (value) {
    case Winograd::automatic: return "auto";
    case Winograd::off: return "off";
  }
  return nullptr;
}

const char* name_of(GpuPlans value) {
  switch (value) {
    case GpuPlans::rule: return "rule";
    case GpuPlans::tuned: return "tuned";
  }
  return nullptr;
}

const char* name_of(Damaged value) {
  switch (value) {
    case Damaged::kError: return "error";
    case Damaged::kSkip: return "skip";
  }
  return nullptr;
}

const char* name_of(Channels value) {
  switch (value) {
    case Channels::kGray: return "1";
    case Channels::kColour: return "3";
    case Channels::kAuto: return "auto";
  }
  return nullptr;
}

const char* name_of(CropBorder value) {
  switch (value) {
    case CropBorder::kZero: return "zero";
    case CropBorder::kReflect: return "reflect";
  }
  return nullptr;
}
// clang-format on

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
