#include "tessera/models/data/sets/image_folder.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/data/images/picture_reader.h"
#include "tessera/models/data/sets/image_files.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"
#include "tessera/runtime/host_memory.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxReaders = 256;

// A picture of the data set. `path` is the offset of its path in the string of all paths.
struct Entry {
  size_t path;
  int32_t label;
  StoredPicture stored;
};

class ImageFolder : public Dataset {
 public:
  ImageFolder(DatasetInfo info, std::string root, std::string paths, std::vector<Entry> entries,
              const PictureNeeds& needs, const ImageFolderOptions& options,
              std::vector<std::string> notes)
      : Dataset(std::move(info)),
        root_(std::move(root)),
        paths_(std::move(paths)),
        entries_(std::move(entries)),
        needs_(needs),
        resize_(options.resize),
        limits_(options.limits),
        notes_(std::move(notes)),
        readers_(static_cast<size_t>(options.readers)) {
    for (PictureReader& reader : readers_) {
      reader.reserve(needs, shape().height, channels());
      free_.push_back(&reader);
    }
  }

  bool has_own_sizes() const override { return true; }
  ImageShape own_shape(int64_t index) const override {
    Dataset::own_shape(index);  // checks it
    const StoredPicture& stored = entries_[static_cast<size_t>(index)].stored;
    const bool rotated = stored.orientation >= 5;
    return {rotated ? stored.width : stored.height, rotated ? stored.height : stored.width,
            channels()};
  }
  std::vector<MemoryItem> host_buffers() const override {
    size_t bytes = readers_.size() * static_cast<size_t>(needs_.decode_bytes);
    for (const PictureReader& reader : readers_) bytes += reader.bytes();
    return {{name() + " list", paths_.capacity() + entries_.capacity() * sizeof(Entry)},
            {name() + " decoders", bytes}};
  }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  int64_t do_label(int64_t index) const override {
    return entries_[static_cast<size_t>(index)].label;
  }

  std::string do_file(int64_t index) const override {
    return paths_.data() + entries_[static_cast<size_t>(index)].path;
  }

  void do_read(int64_t index, uint8_t* image) const override {
    ImageShape own = own_shape(index);
    decode(index, middle_of(own.height, own.width, shape().height, shape().width, resize_), image);
  }

  void do_read_part(int64_t index, const Box& part, const ImageShape& to,
                    uint8_t* image) const override {
    decode(index,
           {{double(part.y), double(part.height), to.height, 0, to.height},
            {double(part.x), double(part.width), to.width, 0, to.width}},
           image);
  }

  void decode(int64_t index, const WantedPart& wanted, uint8_t* image) const {
    const Entry& entry = entries_[static_cast<size_t>(index)];
    std::string path = root_ + "/" + (paths_.data() + entry.path);
    const auto give = [this](PictureReader* reader) {
      {
        const std::lock_guard lock(mutex_);
        free_.push_back(reader);
      }
      given_.notify_one();
    };
    const std::unique_ptr<PictureReader, decltype(give)> reader(take(), give);
    try {
      reader->read(path, entry.stored, wanted, channels(), image, limits_);
    } catch (DataError& error) {
      error.append("; set data.damaged: skip to leave out such pictures");
      throw;
    }
  }

  PictureReader* take() const {
    std::unique_lock lock(mutex_);
    given_.wait(lock, [&] { return !free_.empty(); });
    PictureReader* reader = free_.back();
    free_.pop_back();
    return reader;
  }

  const std::string root_, paths_;
  const std::vector<Entry> entries_;
  const PictureNeeds needs_;
  const int resize_;
  const PictureLimits limits_;
  const std::vector<std::string> notes_;
  mutable std::vector<PictureReader> readers_;
  mutable std::mutex mutex_;  // guards free_
  mutable std::condition_variable given_;
  mutable std::vector<PictureReader*> free_;
};

struct Checked {
  Picture picture;
  int64_t file_bytes = 0;
  std::string error;  // empty if the picture is sound
};

// Discards the rows.
class Nowhere : public RowSink {
  void begin(int, int) override {}
  bool row(const uint8_t*) override { return true; }
};

struct Buffers {
  std::vector<uint8_t> file, rows;
};

Checked check_picture(const std::string& path, const ImageFolderOptions& options,
                      Buffers& buffers) {
  auto& [bytes, scratch] = buffers;
  Checked checked;
  try {
    read_regular_file(path, options.limits.file_bytes, bytes);
    checked.file_bytes = static_cast<int64_t>(bytes.size());
    checked.picture = probe_picture(bytes, path, options.limits);
    if (options.damaged == Damaged::kSkip || options.decode_all) {
      Nowhere nowhere;
      decode_picture(bytes, path, 1, nowhere, scratch, options.limits);
    }
  } catch (const DataError& error) {
    checked.error = printable(error.what());
  }
  return checked;
}

// Returns the bytes of the largest file that is read, of at most `most` bytes.
size_t largest_file(const std::string& root, const std::vector<ImageFile>& files, int64_t most) {
  uintmax_t largest = 0;
  for (const ImageFile& file : files) {
    std::error_code error;
    const uintmax_t bytes = fs::file_size(root + "/" + file.path, error);
    if (!error && bytes <= static_cast<uintmax_t>(most)) largest = std::max(largest, bytes);
  }
  return static_cast<size_t>(largest);
}

// Checks all pictures in `readers` threads; the result does not depend on their number.
std::vector<Checked> check_all(const std::string& root, const std::vector<ImageFile>& files,
                               const ImageFolderOptions& options) {
  // A missing library is no damage: data.damaged must not leave out what others train on.
  for (const ImageFile& file : files) require_decoder(file.path);
  std::vector<Checked> checked(files.size());
  std::atomic<size_t> next = 0;
  // Allocated in this thread: the C library keeps a heap for each thread that allocates.
  std::vector<Buffers> all(static_cast<size_t>(options.readers));
  const size_t largest = largest_file(root, files, options.limits.file_bytes);
  for (Buffers& buffers : all) buffers.file.reserve(largest);
  auto work = [&](Buffers& buffers) {
    for (size_t i; (i = next++) < files.size();)
      checked[i] = check_picture(root + "/" + files[i].path, options, buffers);
  };
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < all.size(); ++i)
      threads.emplace_back([&work, &own = all[i]] { work(own); });
  } catch (const std::system_error&) {  // continues with the threads that exist
  }
  work(all[0]);
  for (std::thread& thread : threads) thread.join();
  return checked;
}

// Returns "3 NAME: a, b, c" with at most `most` of `all`.
std::string list_text(const std::vector<std::string>& all, const char* one, const char* many,
                      const char* separator, size_t most = 8) {
  size_t shown = std::min(all.size(), most);
  return fmt::format(
      "{} {}: {}{}", all.size(), all.size() == 1 ? one : many,
      fmt::join(all.begin(), all.begin() + static_cast<int64_t>(shown), separator),
      shown < all.size() ? fmt::format("{}and {} more", separator, all.size() - shown) : "");
}

// An existing image folder and the names of its parts. Without a test folder, `test` is empty and
// the test pictures are cut off from those of `train`, which is "" for root/<class>.
struct Located {
  std::string root, train = "train", test = {};
  std::vector<std::string> classes = {};
  OuterLinks outer = OuterLinks::kRefused;
  bool both = false;  // there are test and val
  // The validation folder, in a root of its own; empty if there is none.
  std::string validation_root = {}, validation = {};
  bool has_train = true;
  bool cut = false;
};

// Locates test images only; `classes` is empty if there are none. `whole`: root/<class> counts.
Located locate_test(const std::string& root, OuterLinks outer, bool whole) {
  Located at{.root = root, .outer = outer, .has_train = false};
  for (const char* split : {"test", "val", ""}) {
    if ((*split == 0 && !whole) || !has_image_classes(root, split, outer)) continue;
    at.test = split;
    at.classes = image_classes(root, split, outer);
    std::error_code error;
    at.both = at.test == "test" && fs::is_directory(fs::path(root) / "val", error);
    break;
  }
  return at;
}

// Returns a hint naming the folder of the root that has a train: archives often unpack into a
// folder of their name.
std::string inner_root(const fs::path& root) {
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error))
    if (!is_hidden(at->path().string()) && fs::is_directory(at->path(), error) &&
        has_image_classes(at->path().string(), "train", OuterLinks::kFollowed))
      return fmt::format("; or set data.root to '{}'", printable(at->path().string()));
  return "";
}

// Adds the folder data.validation.
void locate_validation(Located& at, const std::string& validation) {
  const fs::path real = at.root;
  std::error_code error;
  const fs::path folder = fs::canonical(real / validation, error);
  if (error || !fs::is_directory(folder, error))
    throw DataError(
        fmt::format("data.validation: folder '{}' does not exist; set a folder of classes like "
                    "train, or a part of the training images, such as 10%",
                    printable((real / validation).string())));
  for (const std::string& other : {at.train, at.test})
    if (fs::equivalent(folder, real / other, error))
      throw DataError(
          fmt::format("data.validation: '{}' is the folder of {} images; set another folder",
                      printable(folder.string()), other == at.train ? "the training" : "the test"));
  const fs::path below = folder.lexically_relative(real / at.train);
  if (at.cut && !below.empty() && *below.begin() != "..")
    throw DataError(
        fmt::format("data.validation: '{}' is inside the folder of the classes, so its images are "
                    "trained on; set a folder elsewhere, or a part such as 10%",
                    printable(folder.string())));
  at.validation_root = folder.parent_path().string();
  at.validation = folder.filename().string();
}

// Returns true for "Train", "testing", "valid", "seg_test": folders of classes, not a class.
bool names_part(const std::string& name) {
  static const std::set<std::string> parts = {"train", "training", "test",      "testing",
                                              "val",   "valid",    "validation"};
  std::string words = name;
  std::ranges::transform(words, words.begin(), [](unsigned char c) {
    return std::isalpha(c) ? static_cast<char>(std::tolower(c)) : ' ';
  });
  std::istringstream in(words);
  return std::any_of(std::istream_iterator<std::string>(in), {},
                     [](const std::string& word) { return parts.contains(word); });
}

// Throws if links make a picture part of the folder twice: it could be trained on and be a test.
void refuse_twice(const ImageFiles& files) {
  std::vector<std::string> paths;
  for (const ImageFile& file : files.pictures) paths.push_back(file.path);
  std::ranges::sort(paths);
  if (const auto twice = std::ranges::adjacent_find(paths); twice != paths.end())
    throw DataError(
        fmt::format("image folder: links lead to '{}' twice, and a test picture must not be "
                    "trained on; remove a link, or put test pictures into test/<class>/",
                    printable(*twice)));
}

// Locates a folder without test pictures; `classes` is empty if there is a test folder, or if it
// has no classes.
Located locate_whole(const fs::path& real, OuterLinks outer) {
  std::error_code error;
  Located at{.root = real.string(), .outer = outer, .cut = true};
  const bool has_train = has_image_classes(at.root, "train", outer);
  for (const char* test : {"test", "val"})
    if (has_train ? fs::is_directory(real / test, error) : has_image_classes(at.root, test, outer))
      return at;
  if (!has_train) at.train = "";
  if (!has_train && (!inner_root(real).empty() || !has_image_classes(at.root, "", outer)))
    return at;
  at.classes = image_classes(at.root, at.train, outer);
  if (!has_train && std::ranges::all_of(at.classes, names_part)) at.classes.clear();
  if (at.classes.size() == 1)
    throw DataError(
        fmt::format("image folder '{0}': it has pictures in one folder only, '{1}', and a network "
                    "needs two classes; if its folders are the classes, set data.root to '{0}/{1}'",
                    printable((real / at.train).string()), printable(at.classes[0])));
  return at;
}

Located locate(const std::string& root, const std::string& validation,
               const ImageFolderOptions& options) {
  const bool test_only = options.test_only;
  const OuterLinks outer = options.follow_links ? OuterLinks::kFollowed : OuterLinks::kRefused;
  std::error_code error;
  fs::path real = fs::canonical(root.empty() ? "." : root, error);
  if (error)
    throw DataError(
        fmt::format("image folder '{}': {}; set data.root to the folder that has the folders "
                    "of the classes, or train and test{}",
                    printable(root), error.message(), printable(relative_path_help(root))));
  if (test_only && !has_image_classes(real.string(), "train", outer))
    if (Located at = locate_test(real.string(), outer, options.test_fraction == 0);
        !at.classes.empty())
      return at;
  const bool all_are_tests = test_only && options.test_fraction == 0;
  if (Located at = all_are_tests ? Located{} : locate_whole(real, outer); !at.classes.empty()) {
    if (!validation.empty()) locate_validation(at, validation);
    return at;
  }
  const bool has_test = fs::is_directory(real / "test", error);
  if (!has_test && validation == "val")
    throw DataError(
        fmt::format("image folder '{}': data.validation is its folder 'val', which is the test set "
                    "because there is no folder 'test'; put test pictures into test/<class>/, or "
                    "set data.validation to a part of the training images, such as 10%",
                    printable(real.string())));
  std::string test = has_test ? "test" : "val";
  for (const std::string& split : {std::string("train"), test})
    if (!fs::is_directory(real / split, error))
      throw DataError(
          fmt::format("image folder '{}': it has no folder '{}'; put the pictures into <class>/, "
                      "or into train/<class>/ and test/<class>/ or val/<class>/{}",
                      printable(real.string()), split == "val" ? "test" : split,
                      split == "train" ? inner_root(real) : ""));
  const bool both = test == "test" && fs::is_directory(real / "val", error);
  Located at{.root = real.string(),
             .test = test,
             .classes = image_classes(real.string(), "train", outer),
             .outer = outer,
             .both = both};
  if (!validation.empty()) locate_validation(at, validation);
  return at;
}

// Returns one line for each kind.
std::vector<std::string> stray_notes(const std::vector<SkippedEntry>& stray) {
  static constexpr const char* kTexts[SkippedEntry::kKinds][2] = {
      {"file is not .jpg, .jpeg, .png or .webp and was skipped",
       "files are not .jpg, .jpeg, .png or .webp and were skipped"},
      {"file is not in the folder of a class and was skipped",
       "files are not in the folder of a class and were skipped"},
      {"link to a folder inside the folder of a class was skipped",
       "links to folders inside the folder of a class were skipped"},
      {"pipe, socket or device was skipped", "pipes, sockets or devices were skipped"},
      {"broken link was skipped", "broken links were skipped"},
      {"folder has no picture and was skipped", "folders have no picture and were skipped"},
      {"hidden file or folder was skipped", "hidden files and folders were skipped"}};
  std::vector<std::string> names[SkippedEntry::kKinds], notes;
  for (const SkippedEntry& one : stray) names[one.kind].push_back(printable(one.path));
  for (size_t kind = 0; kind < SkippedEntry::kKinds; ++kind)
    if (!names[kind].empty())
      notes.push_back(list_text(names[kind], kTexts[kind][0], kTexts[kind][1], ", "));
  return notes;
}

// The files of a split, and the check of each picture.
struct Looked {
  std::string root, split;
  ImageFiles files;
  std::vector<Checked> checked;
  std::vector<std::string> damaged;
  bool gray = true;  // all sound pictures are gray

  Looked(const Located& at, const std::string& folder, const std::string& name,
         const ImageFolderOptions& options)
      : root(folder),
        split(name),
        files(find_images(root, name, at.classes, at.outer)),
        checked(check_all(root, files.pictures, options)) {
    for (const Checked& one : checked)
      if (one.error.empty())
        gray = gray && one.picture.gray;
      else
        damaged.push_back(one.error);
  }
};

// Throws if pictures are damaged and kError is set, or if a split has no sound picture.
void refuse_damaged(const std::vector<const Looked*>& splits, const ImageFolderOptions& options) {
  constexpr size_t kFew = 8, kMany = 1000;
  std::vector<std::string> damaged;
  for (const Looked* looked : splits)
    if (options.damaged == Damaged::kError || looked->damaged.size() == looked->checked.size())
      damaged.insert(damaged.end(), looked->damaged.begin(), looked->damaged.end());
  if (damaged.empty()) return;
  throw DataError(list_text(damaged, "damaged picture", "damaged pictures", "\n  ",
                            options.decode_all ? kMany : kFew) +
                  "\n  replace these pictures, or set data.damaged: skip to leave them out");
}

std::shared_ptr<const Dataset> make_split(const Located& at, const Looked& looked, DatasetInfo info,
                                          const ImageFolderOptions& options) {
  const auto& [root, split, files, checked, damaged, gray] = looked;
  std::string paths;
  std::vector<Entry> entries;
  PictureNeeds needs;
  for (size_t i = 0; i < checked.size(); ++i) {
    const auto& [picture, file_bytes, error] = checked[i];
    if (!error.empty()) continue;
    entries.push_back({paths.size(),
                       files.pictures[i].label,
                       {picture.width, picture.height, picture.orientation}});
    paths += files.pictures[i].path + '\0';
    needs.cover({file_bytes, static_cast<int64_t>(picture.decode_bytes),
                 static_cast<int64_t>(picture.scratch_bytes),
                 std::max(picture.width, picture.height)});
  }
  std::vector<std::string> notes = stray_notes(files.stray);
  if (split == "test" && at.both && at.validation != "val")
    notes.push_back("val is not read because there is a test folder");
  if (!damaged.empty())
    notes.push_back(
        list_text(damaged, "damaged picture was skipped", "damaged pictures were skipped", "\n  "));
  info.count = static_cast<int64_t>(entries.size());
  info.skipped = static_cast<int64_t>(files.stray.size() + damaged.size());
  paths.shrink_to_fit();
  entries.shrink_to_fit();
  return std::make_shared<ImageFolder>(std::move(info), root, std::move(paths), std::move(entries),
                                       needs, options, std::move(notes));
}

}  // namespace

int count_folder_classes(const std::string& root, const ImageFolderOptions& options) {
  return static_cast<int>(locate(root, "", options).classes.size());
}

ImageFolderList list_image_folder(const std::string& root, const ImageFolderOptions& options) {
  const Located at = locate(root, options.test_only ? "" : options.validation, options);
  ImageFolderList list;
  list.classes = static_cast<int>(at.classes.size());
  const auto add = [&](const std::string& from, const std::string& split, int64_t& count) {
    for (const ImageFile& file : find_images(from, split, at.classes, at.outer).pictures) {
      list.bytes += static_cast<int64_t>(file.path.size() + 1 + sizeof(Entry));
      ++count;
    }
  };
  if (!options.test_only || at.cut) add(at.root, at.train, list.train_count);
  if (at.cut) {
    list.test_count = cut_count(list.train_count, options.test_fraction);
    list.train_count -= list.test_count;
    list.bytes += subset_bytes(list.test_count + (options.test_only ? 0 : list.train_count));
    if (options.test_only) list.train_count = 0;
  } else {
    add(at.root, at.test, list.test_count);
  }
  if (!at.validation.empty()) add(at.validation_root, at.validation, list.validation_count);
  return list;
}

DataSplit open_image_folder(const std::string& root, const ImageFolderOptions& options) {
  auto within = [](const char* what, int value, int most) {
    if (value < 1 || value > most)
      throw ConfigError(
          fmt::format("{} is {}, but must be in [1, {}] for an image folder", what, value, most));
  };
  within("data.image_size", options.size, kLargestFolderImage);
  if (options.resize != 0) within("data.resize", options.resize, kLargestFolderImage);
  if (options.resize != 0 && options.resize < options.size)
    throw ConfigError(fmt::format("data.resize is {}, but must be at least data.image_size, {}",
                                  options.resize, options.size));
  within("readers", options.readers, kMaxReaders);
  // Returns the heap of all threads' file buffers and lists to the system.
  struct Release {
    ~Release() { release_unused_heap(); }
  } release;
  const bool asked = !options.test_only || options.channels == Channels::kAuto;
  const Located at = locate(root, asked ? options.validation : "", options);
  const bool all = at.cut || (asked && at.has_train);
  std::optional<Looked> train, validation, test;
  if (all) train.emplace(at, at.root, at.train, options);
  if (at.cut) refuse_twice(train->files);
  if (!at.validation.empty()) validation.emplace(at, at.validation_root, at.validation, options);
  if (!at.cut) test.emplace(at, at.root, at.test, options);
  std::vector<const Looked*> splits;
  for (const auto* split : {&train, &validation, &test})
    if (*split) splits.push_back(&**split);
  refuse_damaged(splits, options);
  const bool gray = options.channels == Channels::kGray ||
                    (options.channels == Channels::kAuto &&
                     std::ranges::all_of(splits, [](const Looked* one) { return one->gray; }));
  DatasetInfo info;
  info.shape = {options.size, options.size, gray ? 1 : 3};
  // Names are printed and packed one per line, so control characters are replaced.
  for (const std::string& name : at.classes) info.class_names.push_back(printable(name));
  info.classes = static_cast<int>(info.class_names.size());
  DataSplit data;
  const auto make = [&](const char* name, const Looked& looked) {
    info.name = name;
    return make_split(at, looked, info, options);
  };
  if (at.cut) {
    data =
        cut_test(make("image_folder pictures", *train), options.test_fraction, options.test_only);
  } else {
    if (!options.test_only) data.train = make("image_folder train", *train);
    data.test = make("image_folder test", *test);
  }
  if (validation && !options.test_only)
    data.validation = make("image_folder validation", *validation);
  return data;
}

}  // namespace tessera
