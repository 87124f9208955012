// Some of a data set's images, for a run on less.
#pragma once

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

}  // namespace tessera
