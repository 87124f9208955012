// Pictures in folders: root/{train,test}/<class>/*.jpg, .jpeg, .png, .webp ("val" may replace
// "test"), or root/<class>/*.jpg, or without test; a part of the pictures is then cut off as the
// test set.
//
// The classes are the folders of train, or of the root, sorted by name; test may lack some but has
// no others. Pictures may be in folders below that of their class. Every
// picture becomes [size x size x 3], or x 1 for gray: its short side is scaled to size and the
// middle is cut out. A random crop for training is cut from the picture itself (augment.h). The
// EXIF orientation is applied. The reading threads decode.
//
// Other entries are skipped and listed in notes(), also a val next to test, links that lead nowhere
// and folders without pictures, which are no classes. Control characters in a class's name become
// '?'. Links that lead out of the root are refused unless follow_links is set.
#pragma once

#include <string>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/images/picture.h"

namespace tessera {

inline constexpr int kLargestFolderImage = 4096;  // pixels a side

struct ImageFolderOptions {
  int size = 224;  // height and width, 1 to kLargestFolderImage
  int resize = 0;  // pixels of the short side before the crop, from size on; 0: size
  Damaged damaged = Damaged::kError;
  int readers = 2;  // pictures decoded at once; further threads wait
  PictureLimits limits = {};
  bool decode_all = false;  // also with kError
  Channels channels = Channels::kColour;
  bool follow_links = false;  // links out of the root
  // A folder of classes like train, relative to the root or absolute; "": none.
  std::string validation = {};
  // The fraction of the pictures that becomes the test set if no folder is one, above 0 and below
  // 1 (cut_test() in subset.h). With test_only and 0, all pictures of root/<class> are.
  double test_fraction = 0.1;
  // Opens only the test pictures. From train, reads the folder names, which are the classes, and
  // with kAuto the pictures, which decide the number of channels. Without a train folder the
  // classes are the folders of test or val, else those of the root.
  bool test_only = false;
};

// Reads every picture's header; with kSkip or decode_all, decodes the picture. Throws ConfigError
// for invalid options, and DataError that names folder, file and reason. The error for damaged
// pictures lists those of all splits: up to 8, or 1000 with decode_all.
DataSplit open_image_folder(const std::string& root, const ImageFolderOptions& options);

// The numbers of pictures and classes, and the bytes of their lists in an open folder.
struct ImageFolderList {
  int64_t train_count = 0, test_count = 0, validation_count = 0, bytes = 0;
  int classes = 0;
};
// Open no picture. Throw DataError as open_image_folder() does.
ImageFolderList list_image_folder(const std::string& root, const ImageFolderOptions& options = {});
int count_folder_classes(const std::string& root, const ImageFolderOptions& options = {});

}  // namespace tessera
