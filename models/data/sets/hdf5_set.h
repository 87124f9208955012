// Data sets in HDF5 files of other programs, whose arrays may be chunked, compressed and of any
// type of number.
//
//   images  [n x H x W] or [n x H x W x C], in the order of `layout`; C is 1 or 3
//   labels  [n], or any shape with one extent of n and all others 1; integers from 0 on
//
// Values become pixels as round((v - low) / (high - low) * 255). The default range is 0 to 255 for
// integers and 0 to 1 for floats; a value outside is an error, never clamped. The number of classes
// is that of the class names, or one more than the largest training label. {split} becomes val
// instead of test if a file has `val` and no `test`.
//
// Without {split} the file is divided: the last images of each class, in the order of the file,
// become the test set, round(n `test_fraction`) of a class of n. The test set is the same in every
// run and with every seed, and in proportion to the classes. Neighbours, such as frames of one
// film, are separated at one position per class.
//
// The reading threads decode images in whole rows of chunks and keep them as uint8 in `cache`. If
// all images fit, each chunk is decoded once in a run, and a random order costs nothing. Otherwise
// reading an image that is not cached decodes all images of its chunks, which happens nearly every
// time in a random order; notes() then gives their number. A larger cache helps, or a pack
// (packed.h), which is read image by image.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/formats/hdf5_library.h"

namespace tessera {

// An invalid setting of Hdf5Source: its configuration key and the error.
struct Hdf5SourceProblem {
  const char* key;
  std::string text;
};
// Returns the first invalid setting, or nullopt.
std::optional<Hdf5SourceProblem> find_problem(const Hdf5Source& source);

// The maximum number of images that will be read, which limits the cache; 0: all.
struct Hdf5Wanted {
  int64_t train = 0, test = 0;
};

// The arrays of one split in a file.
struct Hdf5Arrays {
  std::shared_ptr<const Hdf5Data> images, labels;
};

// Makes the data sets; divides `train` if there is no `test`. class_names and normalization may be
// empty. Reads and checks the labels, but no image. Throws DataError.
DataSplit make_hdf5_set(const Hdf5Arrays& train, const std::optional<Hdf5Arrays>& test,
                        const Hdf5Source& source, int readers,
                        const std::vector<std::string>& class_names = {},
                        const Normalization& normalization = {}, const Hdf5Wanted& wanted = {});

// Returns the numbers at a place; none if `place` is empty or does not exist.
std::vector<float> floats_of(const Hdf5File& file, const std::string& place);

// Opens the file and reads the first image of each split, so that a wrong range fails at once. If
// source names no class names, they are searched in the attribute `class_names` of the labels, the
// images and the file, then in the data set of that name. mean, std: paths of float [C], used if
// they exist. Throws DataError, and ConfigError for what find_problem() finds.
DataSplit open_hdf5_set(const std::string& path, const Hdf5Source& source, int readers,
                        const std::string& mean = "", const std::string& std = "",
                        const Hdf5Wanted& wanted = {});

}  // namespace tessera
