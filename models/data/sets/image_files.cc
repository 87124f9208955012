#include "tessera/models/data/sets/image_files.h"

#include <algorithm>
#include <filesystem>
#include <istream>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <strings.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_reading(const std::string& path, const std::string& why) {
  throw DataError(fmt::format("image folder '{}': {}", printable(path), why));
}

// Returns true if the name ends in .jpg, .jpeg, .png or .webp, in any case.
bool is_picture_name(const fs::path& path) {
  const std::string ending = path.extension().string();
  return std::ranges::any_of(
      std::initializer_list<const char*>{".jpg", ".jpeg", ".png", ".webp"},
      [&](const char* known) { return strcasecmp(ending.c_str(), known) == 0; });
}

// Returns the entries of a folder, sorted by name.
std::vector<fs::directory_entry> entries(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  std::vector<fs::directory_entry> all;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) all.push_back(*at);
  if (error) fail_reading(folder.string(), "cannot be read: " + error.message());
  std::ranges::sort(
      all, [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
  return all;
}

// Returns the kind of an entry that is no picture: kDangling, `folder`, `file` or kNoFile.
SkippedEntry::Kind kind_of(const std::optional<fs::path>& path, SkippedEntry::Kind folder,
                           SkippedEntry::Kind file) {
  std::error_code error;
  if (!path) return SkippedEntry::kDangling;
  if (fs::is_directory(*path, error)) return folder;
  return fs::is_regular_file(*path, error) ? file : SkippedEntry::kNoFile;
}

// Resolves links and makes paths relative to the root.
class Inside {
 public:
  Inside(const std::string& root, OuterLinks outer) : outer_(outer) {
    std::error_code error;
    root_ = fs::canonical(root, error);
    if (error) fail_reading(root, "cannot be found: " + error.message() + "; set data.root");
  }
  const fs::path& root() const { return root_; }
  fs::path split(const std::string& name) const {
    const auto real = resolve(fs::directory_entry(root_ / name));
    if (!real) fail_reading((root_ / name).string(), "the link is broken");
    return *real;
  }
  // Returns the folder of an entry of `split` that may be a class. Not a link to a folder that
  // contains the split.
  std::optional<fs::path> class_folder(const fs::directory_entry& entry,
                                       const fs::path& split) const {
    std::error_code error;
    const std::optional<fs::path> real = resolve(entry);
    if (!real || !fs::is_directory(*real, error)) return {};
    const bool around =
        std::mismatch(real->begin(), real->end(), split.begin(), split.end()).first == real->end();
    return around ? std::nullopt : real;
  }
  std::string from_root(const fs::path& path) const {
    return path.lexically_relative(root_).string();
  }

  // Returns nullopt for a link that leads nowhere.
  std::optional<fs::path> resolve(const fs::directory_entry& entry) const {
    std::error_code error;
    if (!entry.is_symlink(error)) return entry.path();
    fs::path real = fs::canonical(entry.path(), error);
    if (error) return {};
    const bool leaves =
        std::mismatch(root_.begin(), root_.end(), real.begin(), real.end()).first != root_.end();
    if (leaves && outer_ == OuterLinks::kRefused)
      fail_reading(
          entry.path().string(),
          fmt::format(
              "the link leads out of the folder '{}', to '{}'; set data.follow_links: true, "
              "replace the link with its files, or set data.root to a common parent folder",
              printable(root_.string()), printable(real.string())));
    return real;
  }

 private:
  fs::path root_;
  const OuterLinks outer_;
};

// Adds the pictures, resolved, in `real` and in the folders below it, and the other entries to
// `found`. `folder`: the same, links not resolved. Links to folders below a class are not followed,
// so that no folder is read twice.
void add_content(const Inside& inside, const fs::path& folder, const fs::path& real,
                 std::vector<fs::path>& pictures, ImageFiles& found) {
  std::error_code error;
  for (const auto& entry : entries(real)) {
    const fs::path path = folder / entry.path().filename();
    if (is_hidden(entry.path().string())) {
      found.stray.push_back({SkippedEntry::kHidden, inside.from_root(path)});
      continue;
    }
    const std::optional<fs::path> file = inside.resolve(entry);
    if (file && is_picture_name(entry.path()) && fs::is_regular_file(*file, error))
      pictures.push_back(*file);
    else if (file && fs::is_directory(*file, error) && !entry.is_symlink(error))
      add_content(inside, path, *file, pictures, found);
    else
      found.stray.push_back(
          {kind_of(file, SkippedEntry::kFolder, SkippedEntry::kNoPicture), inside.from_root(path)});
  }
}

// Returns true at the first picture, without reading the rest of a large folder.
bool has_picture(const Inside& inside, const fs::path& real) {
  std::error_code error, ignored;
  std::vector<fs::path> below;
  for (fs::directory_iterator at(real, error), end; !error && at != end; at.increment(error)) {
    if (is_hidden(at->path().string())) continue;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) below.push_back(at->path());
    if (!is_picture_name(at->path())) continue;
    const std::optional<fs::path> file = inside.resolve(*at);
    if (file && fs::is_regular_file(*file, ignored)) return true;
  }
  if (error) fail_reading(real.string(), "cannot be read: " + error.message());
  return std::ranges::any_of(below,
                             [&](const fs::path& folder) { return has_picture(inside, folder); });
}

// Returns the names of the first `most` folders in a split that have pictures; sets `any` if it has
// folders.
std::vector<std::string> classes_in(const Inside& inside, const std::string& split, size_t most,
                                    bool& any) {
  std::vector<std::string> classes;
  const fs::path folder = inside.split(split);
  for (const auto& entry : entries(folder)) {
    if (classes.size() == most) break;
    if (is_hidden(entry.path().string())) continue;
    const std::optional<fs::path> real = inside.class_folder(entry, folder);
    if (!real) continue;
    any = true;
    if (has_picture(inside, *real)) classes.push_back(entry.path().filename().string());
  }
  return classes;
}

}  // namespace

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return text;
}

bool is_hidden(const std::string& path) {
  static constexpr const char* kOfSystems[] = {"__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN",
                                               "lost+found"};
  const std::string name = fs::path(path).filename().string();
  return name.starts_with('.') ||
         std::find(std::begin(kOfSystems), std::end(kOfSystems), name) != std::end(kOfSystems);
}

std::vector<std::string> pictures_below(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (is_hidden(at->path().string()))
      at.disable_recursion_pending();
    else if (at->is_regular_file() && is_picture_name(at->path()))
      found.push_back(at->path().string());
  if (error) throw DataError(fmt::format("{}: {}", folder, error.message()));
  if (found.empty())
    throw DataError(fmt::format("{}: has no .jpg, .jpeg, .png or .webp files", folder));
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> pictures_of(const std::vector<std::string>& inputs, std::istream& lines) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (input == "-") {
      for (std::string line; std::getline(lines, line);)
        if (!line.empty()) files.push_back(line);
    } else if (fs::is_directory(input)) {
      std::ranges::move(pictures_below(input), std::back_inserter(files));
    } else {
      files.push_back(input);
    }
  }
  return files;
}

std::vector<std::string> image_classes(const std::string& root, const std::string& split,
                                       OuterLinks outer) {
  const Inside inside(root, outer);
  bool any = false;
  const std::vector<std::string> classes = classes_in(inside, split, SIZE_MAX, any);
  if (classes.empty())
    fail_reading(
        (inside.root() / split).string(),
        any ? "its folders have no .jpg, .jpeg, .png or .webp picture; put the pictures of each "
              "class "
              "into the folder of the class"
            : "it has no folders; put the pictures of each class into a folder of their own");
  return classes;
}

bool has_image_classes(const std::string& root, const std::string& split, OuterLinks outer) {
  const Inside inside(root, outer);
  std::error_code error;
  bool any = false;
  return fs::is_directory(inside.root() / split, error) &&
         !classes_in(inside, split, 1, any).empty();
}

ImageFiles find_images(const std::string& root, const std::string& split,
                       const std::vector<std::string>& classes, OuterLinks outer) {
  const Inside inside(root, outer);
  ImageFiles found;
  const fs::path all = inside.split(split);
  for (const auto& folder : entries(all)) {
    if (is_hidden(folder.path().string())) {
      found.stray.push_back({SkippedEntry::kHidden, inside.from_root(folder.path())});
      continue;
    }
    const std::optional<fs::path> real = inside.resolve(folder);
    std::vector<fs::path> pictures;
    if (inside.class_folder(folder, all))
      add_content(inside, folder.path(), *real, pictures, found);
    if (pictures.empty()) {
      found.stray.push_back({kind_of(real, SkippedEntry::kEmpty, SkippedEntry::kBesideClasses),
                             inside.from_root(folder.path())});
      continue;
    }
    const std::string name = folder.path().filename().string();
    const auto place = std::lower_bound(classes.begin(), classes.end(), name);
    if (place == classes.end() || *place != name)
      fail_reading(folder.path().string(),
                   "train has no class of this name, or no picture of it; use the same name in "
                   "both, or remove this folder");
    for (const fs::path& picture : pictures)
      found.pictures.push_back(
          {inside.from_root(picture), static_cast<int>(place - classes.begin())});
  }
  if (found.pictures.empty())
    fail_reading((inside.root() / split).string(),
                 "it has no pictures; put the pictures of each class into a folder of their own");
  return found;
}

}  // namespace tessera
