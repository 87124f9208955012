// A data set in one HDF5 file, all images at their final size: opened at once, read without
// decoding. Any HDF5 program can open it; the values lie in one piece each, uncompressed:
//
//   train/images  uint8 [count x H x W x C]     test/images   the same
//   train/labels  int32 [count]                 test/labels
//   class_names   text, a line for each class   mean, std     float32 [C], of pixels / 255: the
//                 data set's own, or else measured (moments.h) on the training images
//   attributes    format "tessera data", version 1
//
// A file of another program may leave out the last three; the number of classes is then that of the
// labels. Where it has numbers of other types, it is read as hdf5_set.h says.
//
// With gzip, images and labels lie in compressed chunks, images some 64 KiB to a chunk: such a file
// is smaller and is read as hdf5_set.h says. Of the others libhdf5 finds the arrays, and images are
// read from where they lie.
#pragma once

#include <functional>
#include <string>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/sets/hdf5_set.h"

namespace tessera {

// Throws ConfigError unless a pack can be written to `path`: the folder is there and lets files be
// made, and nothing stands there, or with `overwrite` an ordinary file. Links are not followed.
void check_pack_target(const std::string& path, bool overwrite);

// Reads both splits with `workers` threads and writes PATH.partial, which becomes `path`, in place
// of an ordinary file that may stand there, when all is on the disk. Takes memory for some batches
// only. progress is called now and then with images done and images in all. Throws what
// check_pack_target() with overwrite throws before anything is read, OutputError naming the path
// when the disk refuses (nothing is left then), and what reading throws.
enum class Compress { kNone, kGzip };
void write_packed(const DataSplit& data, const std::string& path, int workers = 2,
                  const std::function<void(int64_t, int64_t)>& progress = {},
                  Compress compress = Compress::kNone);

// The header is checked against the file before memory is taken; the labels are read and checked,
// the images read from the file when they are asked for. A sound file with arrays in chunks goes to
// open_hdf5_set(), with `cache` bytes for images and `readers` decoders. Throws DataError naming
// the file.
DataSplit open_packed(const std::string& path, int64_t cache = Hdf5Source().cache, int readers = 2,
                      const Hdf5Wanted& wanted = {}, bool test_only = false);

}  // namespace tessera
