// Validation images, held out of the training images.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/models/data/dataset.h"

namespace tessera {

// The training images without the validation images, and these. Each class gives as near its share
// as can be, drawn at random: by the seed and the labels alone, so it is the same in every run.
// Both keep the order of the data set, so that a disk is read nearly in order.
struct HeldOut {
  std::shared_ptr<const Dataset> train, validation;
};
// Throws ConfigError when none are held out, or when none are left to train on.
HeldOut hold_out(const std::shared_ptr<const Dataset>& all, const ValidationSource& validation,
                 uint64_t seed);
// What the two take of memory, beside the data set.
int64_t held_out_bytes(int64_t images);

// Why the validation images cannot be taken of so many; empty where they can.
std::string held_out_problem(const ValidationSource& validation, int64_t images);

}  // namespace tessera
