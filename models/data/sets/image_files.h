// Finds the pictures of an image folder by walking through its folders. Opens no picture.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace tessera {

struct ImageFile {
  std::string path;  // relative to the root, links resolved
  int label;
};

// An entry of the folder that is not read: "train/ants/notes.txt".
struct SkippedEntry {
  enum Kind {
    kNoPicture,
    kBesideClasses,
    kFolder,  // a link to a folder inside the folder of a class
    kNoFile,
    kDangling,  // a link that leads nowhere
    kEmpty,     // a folder without pictures in place of a class
    kHidden,    // is_hidden()
    kKinds
  } kind;
  std::string path;
};

struct ImageFiles {
  std::vector<ImageFile> pictures;  // by class, then by name
  std::vector<SkippedEntry> stray;
};

// The treatment of links that lead out of the root.
enum class OuterLinks { kRefused, kFollowed };

// In all functions, `split` is the name of a folder, or "" for the root itself. The pictures of a
// class may be in folders below its folder.

// Returns true if the name begins with a dot (".ipynb_checkpoints", "._1.jpg") or is that of a
// folder in which a system keeps copies ("__MACOSX", "@eaDir"). Such entries are no classes or
// pictures.
bool is_hidden(const std::string& path);

// Returns the pictures in and below a folder, sorted, without hidden ones. Throws DataError if
// there are none or a folder cannot be read.
std::vector<std::string> pictures_below(const std::string& folder);

// Returns the files that are named: the pictures below each folder, for "-" the paths that `lines`
// has, one in each line, and the other inputs as they are. Throws as pictures_below() does.
std::vector<std::string> pictures_of(const std::vector<std::string>& inputs, std::istream& lines);

// Returns the names of the folders in root/split that have pictures, sorted. Throws DataError if
// there are none.
std::vector<std::string> image_classes(const std::string& root, const std::string& split,
                                       OuterLinks outer);

// Returns true if there is a folder root/split with folders that have pictures.
bool has_image_classes(const std::string& root, const std::string& split, OuterLinks outer);

// Returns the pictures of root/split. Throws DataError if a folder is missing or has pictures but
// is no class, or if a link out of the root is refused.
ImageFiles find_images(const std::string& root, const std::string& split,
                       const std::vector<std::string>& classes, OuterLinks outer);

// Returns text that is safe for a terminal: control characters become '?'.
std::string printable(std::string text);

}  // namespace tessera
