// Some of a data set's images, for a run on less or for validation, and all of them under other
// classes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

enum class SubsetOrder {
  kFirst,       // the first so many
  kProportion,  // as below where each class lies in one piece, else the first so many
};

// What notes() say of the first ones; none where that is all.
std::vector<std::string> first_images_note(int64_t count, int64_t all);

// `count` of the images, 1 to all.count(). In proportion means: the classes take turns so that any
// first part of the subset has of each class as near its share as can be (image k of a class of n
// comes at the place (k + 1/2) / n, at one place the lower class first), within a class the first
// ones. So it is the same in every run, a larger subset has all of a smaller one, and the first
// images of a pack of a subset are in proportion too.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> all, int64_t count,
                                      SubsetOrder order);

// How many each class gives of `count` images when they take turns as above.
std::vector<int64_t> shares_in_proportion(const std::vector<int64_t>& of_class, int64_t count);

// The images at these places, in this order. `owns`: counts the memory of `all` as its own, which
// one of several parts does.
std::shared_ptr<const Dataset> part(std::shared_ptr<const Dataset> all, std::string name,
                                    std::vector<int64_t> chosen, std::vector<std::string> notes,
                                    bool owns);

// What kProportion takes of memory where each class lies in one piece.
inline int64_t subset_bytes(int64_t count) { return count * static_cast<int64_t>(sizeof(int64_t)); }

// The training images without the validation images, and these. Each class gives as near its share
// as can be, drawn at random: by the seed and the labels alone, so it is the same in every run.
// Both keep the order of the data set, so that a disk is read nearly in order.
struct HeldOut {
  std::shared_ptr<const Dataset> train, validation;
};
// Throws ConfigError when none are held out, or when none are left to train on.
HeldOut hold_out(const std::shared_ptr<const Dataset>& all, const ValidationSource& validation,
                 uint64_t seed);
// Memory that the two take, beside the data set.
int64_t held_out_bytes(int64_t images);

// Why the validation images cannot be taken of so many; empty where they can.
std::string held_out_problem(const ValidationSource& validation, int64_t images);

// The data set under the classes of another one: label l becomes labels[l], in [0, classes).
// `names`: empty, or one per class. Throws Error where an image has a label for which there is
// none.
std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> data,
                                          std::vector<int64_t> labels, int classes,
                                          std::vector<std::string> names);

}  // namespace tessera
