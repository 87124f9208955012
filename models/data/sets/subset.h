// Subsets of a data set, for smaller runs or for validation, and data sets with other class labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"

namespace tessera {

enum class SubsetOrder {
  kFirst,       // the first images
  kProportion,  // in proportion, if the images are sorted by class; else the first
};

// Returns the note for a subset of the first `count` of `all` images; empty if count == all.
std::vector<std::string> first_images_note(int64_t count, int64_t all);

// Returns a subset of `count` images, 1 to all.count(). In proportion means: the classes take
// turns, so that each first part of the subset contains each class as near to its share as
// possible. Image k of a class of n comes at (k + 1/2) / n; ties go to the lower class. A class
// gives its first images. The subset is thus the same in every run, a larger subset contains a
// smaller one, and the first images of a packed subset are in proportion too.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> all, int64_t count,
                                      SubsetOrder order);

// Returns the `count` images `chosen`, in this order, or the first `count` if `chosen` is empty.
// `owns`: includes the memory of `all` in host_buffers(), as one of several parts does.
std::shared_ptr<const Dataset> part(std::shared_ptr<const Dataset> all, std::string name,
                                    int64_t count, std::vector<int64_t> chosen,
                                    std::vector<std::string> notes, bool owns = true);

// Returns the memory of a part of `count` images, without the data set: of a kProportion subset if
// the images are sorted by class, or of both parts of hold_out() or cut_test().
inline int64_t subset_bytes(int64_t count) { return count * static_cast<int64_t>(sizeof(int64_t)); }

// The training images without the validation images, and the validation images. Each class gives as
// near to its share as possible, drawn by the seed and the labels alone, so the same in every run.
// Both keep the order of the data set, so that a disk is read nearly in order.
struct HeldOut {
  std::shared_ptr<const Dataset> train, validation;
};
// Splits `all`. Throws ConfigError if no images are held out, or none are left to train on.
HeldOut hold_out(const std::shared_ptr<const Dataset>& all, const ValidationSource& validation,
                 uint64_t seed);

// Returns the number of test images of cut_test().
int64_t cut_count(int64_t images, double fraction);
// Splits the images of a set without test images in proportion to the classes. The names of the
// files decide, so a test image remains one, whatever the seed, and when files are added, as long
// as its class gives as many. `test_only`: without the training images. Throws ConfigError as
// hold_out() does.
DataSplit cut_test(const std::shared_ptr<const Dataset>& all, double fraction, bool test_only);

// Returns why hold_out() would throw for this number of images; empty if it would not.
std::string held_out_problem(const ValidationSource& validation, int64_t images);

// Returns the data set with the classes of another one: label l becomes labels[l], in [0, classes).
// `names`: empty, or one per class. Throws Error if an image's label has no new label.
std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> data,
                                          std::vector<int64_t> labels, int classes,
                                          std::vector<std::string> names);

}  // namespace tessera
