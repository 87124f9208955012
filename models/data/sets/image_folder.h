// Pictures in folders: root/{train,test}/<class>/*.jpg, .jpeg, .png ("val" for "test" will do).
//
// The classes are the folders of train, sorted by name; test may lack some but has no others. Every
// picture becomes [size x size x 3], or x 1 where it is to be gray: its short side is scaled to
// size and the middle cut out; a random crop for training is cut from the picture itself
// (augment.h). The EXIF orientation is followed. Decoding happens in the threads that read.
//
// What else is there is skipped and named in notes(), also a val beside test, links that lead
// nowhere and folders without pictures, which are no classes. Control characters in a class's name
// are shown as '?'. A link that leads out of the root is refused unless it is to be followed.
#pragma once

#include <string>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/images/picture.h"

namespace tessera {

inline constexpr int kLargestFolderImage = 4096;  // pixels a side

struct ImageFolderOptions {
  int size = 224;  // height and width, 1 to kLargestFolderImage
  Damaged damaged = Damaged::kError;
  int readers = 2;  // pictures that can be decoded at once; more have to wait
  PictureLimits limits = {};
  bool decode_all = false;  // with kError too
  Channels channels = Channels::kColour;
  bool follow_links = false;  // out of the root
  // A folder of classes like train, from the root or absolute; "": none.
  std::string validation = {};
  // Of train the names of its folders alone, which are the classes; with kAuto its pictures too,
  // as they decide about the channels. Without such a train the classes are the folders of test or
  // val, or else those of the root itself: root/<class>/*.jpg.
  bool test_only = false;
};

// Looks at every picture's header, with kSkip or decode_all at the whole picture. Throws
// ConfigError for options that is invalid, DataError that names folder, file and reason. The error
// for damaged pictures names those of both splits, with decode_all up to 1000.
DataSplit open_image_folder(const std::string& root, const ImageFolderOptions& options);

// How many pictures there are and what an open folder's lists of them take; opens no picture.
// Throws DataError as open_image_folder() does.
struct ImageFolderList {
  int64_t train_count = 0, test_count = 0, validation_count = 0, bytes = 0;
};
ImageFolderList list_image_folder(const std::string& root, const ImageFolderOptions& options = {});

}  // namespace tessera
