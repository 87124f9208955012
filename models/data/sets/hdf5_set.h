// A data set in an HDF5 file of another program, as its arrays are: chunked, compressed, of any
// type of number.
//
//   images  [n x H x W] or [n x H x W x C], in the order that layout says; C is 1 or 3
//   labels  [n], or any shape with one extent of n and all others 1; whole numbers from 0 on
//
// Values become pixels as round((v - low) / (high - low) * 255). The range is 0 to 255 for integers
// and 0 to 1 for floats where none is given; a value outside is an error, never cut off. The number
// of classes is that of the class names, or one more than the largest training label. Where a file
// has `val` and no `test`, {split} becomes val.
//
// Without {split} the file is cut: of each class the last images, in the order of the file, its
// part `test_part` rounded, become the test set. The same images in every run and with every seed,
// each class in proportion; neighbours, such as frames of one film, are parted at one place a
// class.
//
// Images are decoded in whole rows of chunks by the threads that ask and kept as uint8, as many as
// `cache` has room for. Where that is all of them, each chunk is decoded once in a run, and a
// random order costs nothing. Where it is not, an image that is not kept costs the decoding of all
// images that its chunks hold, in a random order nearly every time: notes() then says how many
// those are. A larger cache helps, or a pack (packed.h), which is read image by image.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/formats/hdf5_library.h"

namespace tessera {

// What cannot be meant, and the key of Hdf5Source that says so; none where all can.
struct Hdf5SourceProblem {
  const char* key;
  std::string text;
};
std::optional<Hdf5SourceProblem> find_problem(const Hdf5Source& source);

// How many images of each set will be read at most; 0: all. The cache is no larger than they need.
struct Hdf5Wanted {
  int64_t train = 0, test = 0;
};

// Arrays of one split, as a file has them.
struct Hdf5Arrays {
  std::shared_ptr<const Hdf5Data> images, labels;
};

// class_names may be empty, and so may the normalization. Without `test` it is cut from `train`.
// The labels are read and checked; of the images none is. Throws DataError.
DataSplit make_hdf5_set(const Hdf5Arrays& train, const std::optional<Hdf5Arrays>& test,
                        const Hdf5Source& source, int readers,
                        const std::vector<std::string>& class_names = {},
                        const Normalization& normalization = {}, const Hdf5Wanted& wanted = {});

// Opens the file and reads the first image of each split, so that a range that does not fit is
// known at once. Class names that source does not name are sought in the attribute `class_names` of
// the labels, the images and the file. mean, std: places of float [C], used where they are there.
// Throws ConfigError for what find_problem() finds, DataError.
DataSplit open_hdf5_set(const std::string& path, const Hdf5Source& source, int readers,
                        const std::string& mean = "", const std::string& std = "",
                        const Hdf5Wanted& wanted = {});

}  // namespace tessera
