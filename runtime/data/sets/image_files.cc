#include "tessera/runtime/data/sets/image_files.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw DataError(fmt::format("image folder '{}': {}", printable(path), why));
}

// The entries of a folder, sorted by name.
std::vector<fs::directory_entry> entries(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  std::vector<fs::directory_entry> all;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) all.push_back(*at);
  if (error) fail(folder.string(), "cannot be read: " + error.message());
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
  return all;
}

bool is_picture_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// Of what is in a class's folder and no picture.
Stray::Kind kind_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return Stray::kFolder;
  return fs::is_regular_file(path, error) ? Stray::kNoPicture : Stray::kNoFile;
}

// The path of an entry from the root, after its links.
class Inside {
 public:
  explicit Inside(const std::string& root) {
    std::error_code error;
    root_ = fs::canonical(root, error);
    if (error) fail(root, "cannot be found: " + error.message() + "; set data.root");
  }
  const fs::path& root() const { return root_; }
  fs::path split(const std::string& name) const {
    return resolve(fs::directory_entry(root_ / name));
  }

  fs::path resolve(const fs::directory_entry& entry) const {
    std::error_code error;
    if (!entry.is_symlink(error)) return entry.path();
    fs::path real = fs::canonical(entry.path(), error);
    if (error) fail(entry.path().string(), "the link leads nowhere: " + error.message());
    if (std::mismatch(root_.begin(), root_.end(), real.begin(), real.end()).first != root_.end())
      fail(entry.path().string(),
           fmt::format("the link leads out of the folder '{}', to '{}'; put the files themselves "
                       "there, or let data.root be the folder above both",
                       printable(root_.string()), printable(real.string())));
    return real;
  }

 private:
  fs::path root_;
};

}  // namespace

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return text;
}

std::vector<std::string> image_classes(const std::string& root, const std::string& split) {
  Inside inside(root);
  std::vector<std::string> classes;
  std::error_code error;
  for (const auto& entry : entries(inside.split(split)))
    if (fs::is_directory(inside.resolve(entry), error))
      classes.push_back(entry.path().filename().string());
  if (classes.empty())
    fail((inside.root() / split).string(),
         "it has no folders; the pictures of each class belong into a folder of their own");
  return classes;
}

ImageFiles find_images(const std::string& root, const std::string& split,
                       const std::vector<std::string>& classes) {
  Inside inside(root);
  ImageFiles found;
  std::error_code error;
  auto from_root = [&](const fs::path& path) { return path.lexically_relative(inside.root()); };
  for (const auto& folder : entries(inside.split(split))) {
    fs::path real = inside.resolve(folder);
    if (!fs::is_directory(real, error)) {
      found.stray.push_back(
          {fs::is_regular_file(real, error) ? Stray::kBesideClasses : Stray::kNoFile,
           from_root(folder.path()).string()});
      continue;
    }
    std::string name = folder.path().filename().string();
    auto place = std::lower_bound(classes.begin(), classes.end(), name);
    if (place == classes.end() || *place != name)
      fail(folder.path().string(), "train has no such class");
    int label = static_cast<int>(place - classes.begin());
    size_t before = found.pictures.size();
    for (const auto& entry : entries(real)) {
      fs::path file = inside.resolve(entry);
      if (is_picture_name(entry.path()) && fs::is_regular_file(file, error)) {
        found.pictures.push_back({from_root(file).string(), label});
      } else {
        found.stray.push_back(
            {kind_of(file), (from_root(folder.path()) / entry.path().filename()).string()});
      }
    }
    if (found.pictures.size() == before)
      fail(folder.path().string(), "it has no .jpg, .jpeg or .png picture");
  }
  if (found.pictures.empty()) fail((inside.root() / split).string(), "it has no pictures");
  return found;
}

}  // namespace tessera
