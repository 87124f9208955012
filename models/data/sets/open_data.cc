#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/data/dataset.h"
#include "tessera/models/data/sets/hdf5_set.h"
#include "tessera/models/data/sets/image_folder.h"
#include "tessera/models/data/sets/packed.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Returns the path of the file with this name and one of the endings, in the data folder or in
// `subfolder`, to which the published archives unpack. Throws DataError.
std::string find_file(const DataSource& source, const std::string& subfolder,
                      const std::string& name, const std::vector<std::string>& endings) {
  std::vector<std::string> tried;
  std::error_code ignored;
  for (const fs::path& from : {fs::path(), fs::path(subfolder)})
    for (const std::string& ending : endings) {
      const fs::path file = from / (name + ending), path = fs::path(source.root) / file;
      if (fs::exists(path, ignored)) return path.string();
      tried.push_back(file.string());
    }
  const std::string folder = source.root.empty() ? "." : source.root;
  throw DataError(fmt::format(
      "data {}: {} '{}'; looked for {}; unpack the data set's "
      "files there or set data.root to the folder that has them",
      source.name,
      fs::is_directory(folder, ignored) ? "a file is missing in folder" : "there is no folder",
      fs::absolute(folder, ignored).lexically_normal().string(), fmt::join(tried, ", ")));
}

std::shared_ptr<const Dataset> some(std::shared_ptr<const Dataset> all, int64_t count,
                                    const char* key, SubsetOrder order) {
  if (all == nullptr || count == 0 || count == all->count()) return all;
  if (count < 0 || count > all->count()) {
    throw ConfigError(fmt::format("data.{}: is {}, but {} has only {} images; 0 means all", key,
                                  count, all->name(), all->count()));
  }
  return subset(std::move(all), count, order);
}

// Reads one name per class; returns none if the file is missing or does not match.
std::vector<std::string> read_class_names(const fs::path& path, int classes) {
  constexpr size_t kMaxBytes = 64;
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string name; names.size() <= static_cast<size_t>(classes) && file >> name;) {
    if (name.size() > kMaxBytes) return {};
    names.push_back(name);
  }
  if (names.size() != static_cast<size_t>(classes)) names.clear();
  return names;
}

DataSplit open_published(const PublishedSet& set, const DataSource& source) {
  const bool idx = set.format == PublishedFormat::kIdx;
  const std::vector<std::string> endings =
      idx ? std::vector<std::string>{"", ".gz"} : std::vector<std::string>{""};
  const auto find = [&](const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    for (const std::string& name : names)
      paths.push_back(find_file(source, set.folder, name, endings));
    return paths;
  };
  const std::vector<std::string> train = source.test_only ? std::vector<std::string>()
                                                          : find(set.train),
                                 test = find(set.test);
  const PublishedLabels& labels = set.labels_of(source.coarse);
  DatasetInfo info{.name = "",
                   .shape = {},
                   .count = 0,
                   .classes = labels.classes,
                   .class_names = labels.names,
                   .normalization = set.normalization};
  if (!labels.names_file.empty())
    info.class_names =
        read_class_names(fs::path(test[0]).parent_path() / labels.names_file, labels.classes);
  const auto read = [&](const char* split, const std::vector<std::string>& files, int64_t count,
                        int64_t wanted) {
    info.name = source.name + " " + split;
    if (idx) return read_idx(files[0], files[1], info, wanted);
    const CifarFormat format{.label_bytes = static_cast<int>(set.labels.size()),
                             .label_at = static_cast<int>(&labels - set.labels.data()),
                             .records_per_file = count / static_cast<int64_t>(files.size())};
    return read_cifar(files, format, info, wanted);
  };
  return {source.test_only ? nullptr : read("train", train, set.train_count, source.train_count),
          read("test", test, set.test_count, source.test_count)};
}

ImageFolderOptions folder_options(const DataSource& source) {
  return {.size = source.image_size,
          .resize = source.resize,
          .damaged = source.damaged,
          .readers = source.readers,
          .decode_all = source.decode_all,
          .channels = source.channels,
          .follow_links = source.follow_links,
          .validation = source.validation.folder,
          .test_fraction = source.test_fraction,
          .test_only = source.test_only};
}

DataSplit open_folder(const DataSource& source) {
  if (source.image_size == 0)
    throw ConfigError(
        "data.image_size: must be set for image_folder: the height and width of every image, such "
        "as 224");
  return open_image_folder(source.root, folder_options(source));
}

DataSplit open_hdf5(const DataSource& source) {
  const Hdf5Wanted wanted{source.train_count, source.test_count};
  return source.hdf5.images.empty()
             ? open_packed(source.root, source.hdf5.cache, source.readers, wanted, source.test_only)
             : open_hdf5_set(source.root, source.hdf5, source.readers, "", "", wanted);
}

// A synthetic set of at most this many bytes is kept in memory, so that it is made only once.
constexpr int64_t kMaxKept = int64_t{256} << 20;

std::shared_ptr<const Dataset> keep_if_small(std::shared_ptr<const Dataset> made) {
  int64_t bytes = made->shape().bytes();
  if (made->count() * bytes > kMaxKept) return made;
  std::vector<uint8_t> images(static_cast<size_t>(made->count() * bytes));
  for (int64_t i = 0; i < made->count(); ++i) made->read(i, images.data() + i * bytes);
  return std::make_shared<MemoryDataset>(made->info(), std::move(images), labels_of(*made));
}

int synthetic_size(const DataSource& source) {
  return source.image_size == 0 ? 32 : source.image_size;
}

std::pair<int64_t, int64_t> synthetic_counts(const DataSource& source) {
  return {source.train_count == 0 ? 10000 : source.train_count,
          source.test_count == 0 ? 2000 : source.test_count};
}

DataSplit open_synthetic(const DataSource& source) {
  const int size = synthetic_size(source);
  const auto [train, test] = synthetic_counts(source);
  return {source.test_only
              ? nullptr
              : keep_if_small(synthetic(source.seed, SyntheticSplit::kTrain, train, size)),
          keep_if_small(synthetic(source.seed, SyntheticSplit::kTest, test, size))};
}

struct Known {
  std::string name;
  std::function<DataSplit(const DataSource&)> open;
  // Published files are shuffled; a folder, and a pack of one, is sorted by class.
  SubsetOrder order = SubsetOrder::kFirst;
  bool sized = false;  // the size of the images can be chosen
};

// Returns the data sets, sorted by name.
const std::vector<Known>& known_sets() {
  static const std::vector<Known> sets = [] {
    std::vector<Known> all = {{"hdf5", open_hdf5, SubsetOrder::kProportion},
                              {"image_folder", open_folder, SubsetOrder::kProportion, true},
                              {"synthetic", open_synthetic, SubsetOrder::kFirst, true}};
    for (const PublishedSet& set : published_sets())
      all.push_back({set.name, std::bind_front(open_published, std::cref(set))});
    std::ranges::sort(all, {}, &Known::name);
    return all;
  }();
  return sets;
}

void check_validation(const DataSource& source) {
  if (source.validation.folder.empty() || source.name == "image_folder") return;
  throw ConfigError(
      fmt::format("data.validation: '{}' is read as a folder, which only image_folder can have; "
                  "for {} set a part such as 10%, or a number of images",
                  source.validation.folder, source.name));
}

// Moves the validation images out of the training images, if the counts are known without opening.
DataNeed with_validation(DataNeed need, const ValidationSource& validation) {
  if (!validation.any() || !validation.folder.empty() || need.train_count == 0) return need;
  if (!held_out_problem(validation, need.train_count).empty()) return need;  // open_data() throws
  need.bytes += subset_bytes(need.train_count);
  need.validation_count = validation.images(need.train_count);
  need.train_count -= need.validation_count;
  return need;
}

// Returns the need of an image folder. Does not throw if it is missing, so that a plan can be made.
DataNeed folder_need(const DataSource& source) {
  DataNeed need;
  need.complete = false;
  try {
    const ImageFolderList list = list_image_folder(source.root, folder_options(source));
    need.classes = list.classes;
    if (source.damaged == Damaged::kSkip) return need;
    need.bytes = list.bytes;
    const auto counted = [&](int64_t all, int64_t wanted) {
      if (wanted <= 0 || wanted >= all) return all;
      need.bytes += subset_bytes(wanted);
      return wanted;
    };
    if (!source.test_only) need.train_count = counted(list.train_count, source.train_count);
    need.test_count = counted(list.test_count, source.test_count);
    need.validation_count = list.validation_count;
  } catch (const DataError&) {
  }
  return need;
}

// Returns the need of a set whose size follows from its name; zeros for other sets.
DataNeed named_need(const DataSource& source) {
  constexpr int64_t kLabel = sizeof(int32_t);
  if (source.name == "synthetic") {
    auto [train, test] = synthetic_counts(source);
    if (source.test_only) train = 0;
    const int64_t image = int64_t{3} * synthetic_size(source) * synthetic_size(source);
    DataNeed need{{}, train, test, kSyntheticClasses, 0};
    for (int64_t count : {train, test})
      if (count * image <= kMaxKept) need.bytes += count * (image + kLabel);
    return need;
  }
  const PublishedSet* set = find_published(source.name);
  if (set == nullptr) return {};
  const auto some_of = [](int64_t all, int64_t wanted) {
    return wanted == 0 ? all : std::min(all, wanted);
  };
  const int64_t train = source.test_only ? 0 : some_of(set->train_count, source.train_count),
                test = some_of(set->test_count, source.test_count);
  return {{},
          train,
          test,
          set->labels_of(source.coarse).classes,
          (train + test) * (set->shape.bytes() + kLabel)};
}

}  // namespace

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Known& known : known_sets()) all.push_back(known.name);
    return all;
  }();
  return names;
}

DataSplit open_data(const DataSource& source) {
  for (const Known& known : known_sets()) {
    if (source.name != known.name) continue;
    if (source.image_size != 0 && !known.sized) {
      throw ConfigError(
          fmt::format("data.image_size: can be set only for image_folder and synthetic; the images "
                      "of {} have a fixed size",
                      source.name));
    }
    check_validation(source);
    DataSplit split = known.open(source);
    split.train = some(split.train, source.train_count, "train_count", known.order);
    split.test = some(split.test, source.test_count, "test_count", known.order);
    if (split.train == nullptr || !source.validation.any() || !source.validation.folder.empty())
      return split;
    const HeldOut parts = hold_out(split.train, source.validation, source.seed);
    return {parts.train, split.test, parts.validation, true};
  }
  throw ConfigError(
      fmt::format("data.name: '{}' is not one of {}", source.name, fmt::join(data_names(), ", ")));
}

DataNeed data_need(const DataSplit& data) {
  DataNeed need{data.test->shape(), data.train != nullptr ? data.train->count() : 0,
                data.test->count(), data.test->classes(), 0};
  if (data.validation != nullptr) need.validation_count = data.validation->count();
  for (const Dataset* split : {data.train.get(), data.validation.get(), data.test.get()})
    if (split != nullptr) need.bytes += total_bytes(split->host_buffers());
  return need;
}

DataNeed data_need(const DataSource& source) {
  const bool gray_maybe = source.name == "image_folder" && source.channels == Channels::kAuto;
  if (source.name == "hdf5" || gray_maybe) return data_need(open_data(source));
  return with_validation(source.name == "image_folder" ? folder_need(source) : named_need(source),
                         source.validation);
}

int class_count(const DataSource& source) {
  if (source.name == "hdf5") return open_data(source).test->classes();
  return source.name == "image_folder" ? count_folder_classes(source.root, folder_options(source))
                                       : named_need(source).classes;
}

}  // namespace tessera
