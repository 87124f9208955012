// Which pictures an image folder has: the walk through its folders. Opens no picture.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct ImageFile {
  std::string path;  // from the root, links resolved
  int label;
};

// What is there besides: "train/ants/notes.txt".
struct SkippedEntry {
  enum Kind {
    kNoPicture,
    kBesideClasses,
    kFolder,
    kNoFile,
    kDangling,  // a link that leads nowhere
    kEmpty,     // a folder without pictures, where those of a class belong
    kHidden,    // is_hidden()
    kKinds
  } kind;
  std::string path;
};

struct ImageFiles {
  std::vector<ImageFile> pictures;  // by class, then by name
  std::vector<SkippedEntry> stray;
};

// Links that lead out of the root.
enum class OuterLinks { kRefused, kFollowed };

// `split` in all of these: the name of a folder, or "" for the root itself.

// Whether the name begins with a dot (".ipynb_checkpoints", "._1.jpg") or is that of a folder in
// which a system keeps copies ("__MACOSX", "@eaDir"). No class and no picture is called so.
bool is_hidden(const std::string& path);

// Whether its name ends as one of a picture does: .jpg, .jpeg or .png, in any case.
bool is_picture_name(const std::string& path);

// The names of the folders in root/split that have pictures, sorted.
std::vector<std::string> image_classes(const std::string& root, const std::string& split,
                                       OuterLinks outer);

// Whether there are such: a folder root/split with folders that have pictures.
bool has_image_classes(const std::string& root, const std::string& split, OuterLinks outer);

// The pictures of root/split. Throws DataError when a folder is missing, has pictures and is no
// class, or when a link leads out of the root and is refused.
ImageFiles find_images(const std::string& root, const std::string& split,
                       const std::vector<std::string>& classes, OuterLinks outer);

// Text fit for a terminal: control characters become '?'.
std::string printable(std::string text);

}  // namespace tessera
