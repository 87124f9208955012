// Packs: data sets in one HDF5 file with all images at their final size, which open at once and are
// read without decoding. Any HDF5 program can open one. Arrays are contiguous and uncompressed:
//
//   train/images  uint8 [count x H x W x C]     test/images
//   train/labels  int32 [count]                 test/labels
//   class_names   text, one line per class      mean, std     float32 [C], of pixels / 255: the
//                 data set's own, else measured (moments.h) on the training images
//   attributes    format "tessera data", version 1
//
// A file of another program may leave out the last three; the number of classes is then that of the
// labels. A file with numbers of other types is read as hdf5_set.h says.
//
// kGzip writes images and labels in compressed chunks, about 64 KiB of images each. Such a file is
// smaller and is read as hdf5_set.h says. In other packs, libhdf5 finds the arrays, and images are
// read from their offset in the file.
#pragma once

#include <functional>
#include <string>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/sets/hdf5_set.h"

namespace tessera {

// Throws ConfigError unless a pack can be written to `path`: its folder exists and is writable, and
// `path` does not exist, or with `overwrite` is an ordinary file. Links are not followed.
void check_pack_target(const std::string& path, bool overwrite);

// Reads both splits with `workers` threads and writes PATH.partial, which replaces `path` when all
// data are on the disk. Calls progress(images done, images in all) now and then. Throws what
// check_pack_target() with overwrite throws before anything is read, OutputError naming the path if
// writing fails (leaves no file then), and what reading throws. Uses memory for a few batches.
enum class Compress { kNone, kGzip };
void write_packed(const DataSplit& data, const std::string& path, int workers = 2,
                  const std::function<void(int64_t, int64_t)>& progress = {},
                  Compress compress = Compress::kNone);

// Checks the header against the file before it allocates memory, then reads and checks the labels;
// images are read on demand. A sound file with arrays in chunks goes to open_hdf5_set(), with
// `cache` bytes for images and `readers` decoders. Throws DataError naming the file.
DataSplit open_packed(const std::string& path, int64_t cache = Hdf5Source().cache, int readers = 2,
                      const Hdf5Wanted& wanted = {}, bool test_only = false);

}  // namespace tessera
